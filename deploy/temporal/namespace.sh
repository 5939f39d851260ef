#!/bin/sh
# The namespace of WMS2. Closed histories are kept for so long; the record in WMS2's own database stays for good.
set -eu
temporal operator namespace describe --namespace "$NAMESPACE" ||
  temporal operator namespace create --namespace "$NAMESPACE" --retention "$RETENTION"
