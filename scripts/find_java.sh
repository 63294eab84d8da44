#!/bin/sh
# Prints the home of a Java 17 or newer, which Spark needs; messages go to stderr.
#
# Looks at JAVA_HOME, then at java on PATH, then in the usual places. If there is none, installs one
# where that needs no questions (apt-get and root), else stops and says what to install.
set -eu

OLDEST=17

# java_home JAVA: print the home of this java if it runs and is new enough.
java_home() {
    settings=$("$1" -XshowSettings:properties -version 2>&1) || return 1
    version=$(printf '%s\n' "$settings" | sed -n 's/^ *java\.specification\.version = //p')
    home=$(printf '%s\n' "$settings" | sed -n 's/^ *java\.home = //p')
    # Java 8 calls itself 1.8: the part before the dot is then 1, rightly too old.
    [ "${version%%.*}" -ge "$OLDEST" ] 2>/dev/null && printf '%s\n' "$home"
}

find_java() {
    for java in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(command -v java || true)" \
        /usr/lib/jvm/*/bin/java /Library/Java/JavaVirtualMachines/*/Contents/Home/bin/java; do
        if [ -n "$java" ] && [ -x "$java" ] && java_home "$java"; then
            return 0
        fi
    done
    return 1
}

find_java && exit 0

if command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ]; then
    echo "No Java $OLDEST or newer found: installing one with apt-get ..." >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >&2 || true
    # Newer Debian and Ubuntu releases carry 21 instead of 17.
    for package in openjdk-17-jre-headless openjdk-21-jre-headless; do
        if apt-get install -y -qq --no-install-recommends "$package" >&2; then
            find_java && exit 0
        fi
    done
fi

cat >&2 <<MESSAGE
No Java $OLDEST or newer was found, and Spark needs one. Install it, for example with
    Debian, Ubuntu   sudo apt-get install openjdk-17-jre-headless
    Fedora           sudo dnf install java-17-openjdk-headless
    macOS            brew install openjdk@17
and run the command again. If Java is installed elsewhere, set JAVA_HOME to its folder.
MESSAGE
exit 1
