# Stand-in for the set-up of CMS software. Like the real one it is sourced and changes the environment only.
here="$(dirname "${BASH_SOURCE[0]}")"
[ $# -eq 0 ] || { echo "cmsset_default.sh was handed arguments" >&2; return 1; }
export PATH="$here/bin:$PATH"
