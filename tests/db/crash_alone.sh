#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A directory has one run of spolia-crash at a time, and a run that was ended leaves no process that
# works on in it: crash_alone.sh PROGRAM
place=$(mktemp -d)
first=
trap 'kill -KILL $first 2>/dev/null; rm -rf "$place"' EXIT
"$1" --seconds 1000 --directory "$place/run" >"$place/out" 2>&1 &
first=$!
until [ -e "$place/run/base/SPOLIA" ]; do
  kill -0 $first || { cat "$place/out"; exit 1; }
  sleep 0.02
done

"$1" --seconds 0 --directory "$place/run" 2>"$place/said"
status=$?
cat "$place/said"
[ $status -eq 2 ] || { echo "a second run ended with $status"; exit 1; }
grep -q "$place/run: another run uses it" "$place/said" || exit 1

kill -TERM $first
wait $first
# The system kills its child a moment later. The child would have worked forever.
until "$1" --seconds 0 --directory "$place/run"; do sleep 0.02; done
