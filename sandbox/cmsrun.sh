#!/bin/bash
# Sets up a CMSSW release and becomes cmsRun.
#   bash cmsrun.sh SOFTWARE ARCHITECTURE RELEASE READY REPORT CONFIGURATION
# Every value is an argument and is only ever used in quotes. READY is made when the set-up is over, so that the
# caller can tell its exit codes from those of cmsRun: 31 no software, 32 its set-up failed, 34 no such release,
# 35 no project area, 36 no runtime environment.
software="$1" architecture="$2" release="$3" ready="$4" report="$5" configuration="$6"

[ -r "$software/cmsset_default.sh" ] || { echo "$software holds no cmsset_default.sh" >&2; exit 31; }
export SCRAM_ARCH="$architecture"
set --
. "$software/cmsset_default.sh" || exit 32
scram project CMSSW "$release" || exit 34
step="$PWD"
cd "$release/src" || exit 35
environment="$(scram runtime -sh)" || exit 36
eval "$environment"
cd "$step" || exit 35
: > "$ready"
exec cmsRun -j "$report" "$configuration"
