#!/bin/sh
# Copies the installation into a folder of its own below FOLDER, named after the time, and keeps the newest few: backup.sh FOLDER [HOW_MANY].
# What is copied, `kitbag admin backup` knows from the variables that a node has, and from KITBAG_OWNER_DATABASE.
set -eu
folder=$1
keep=${2:-7}

# Only what is whole is named after a time. One that was cut off goes on where it was when this is run again.
kitbag admin backup "$folder/unfinished"
mv "$folder/unfinished" "$folder/$(date -u +%Y-%m-%dT%H%M%SZ)"

# Names of times are in their order.
for old in $(cd "$folder" && ls -d [0-9]*T*Z | sort -r | tail -n "+$((keep + 1))"); do
    rm -rf "${folder:?}/$old"
done
