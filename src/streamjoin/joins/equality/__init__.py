"""Joins of one window by equality: lazy and eager algorithms over plain arrays.

The eight algorithms are those that Zhang, Mao, He, Grulich, Zeuch, He, Ma and Markl compare in
"Parallelizing Intra-Window Join on Multicores: An Experimental Study" (SIGMOD 2021). Sections cited
in these modules, such as 3.1, are of that paper; docs/papers has its errors and our departures.
"""
