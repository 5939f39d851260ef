#!/bin/sh
# The tables of Temporal, made or brought up to the release of this image; again: nothing to do.
# The password is in SQL_PASSWORD.
set -eu
schema() {
  temporal-sql-tool --plugin postgres12 --ep postgresql -p 5432 -u temporal --db "$1" "$2" "$3" "$4"
}
for pair in temporal:temporal temporal_visibility:visibility; do
  database=${pair%:*}
  schema "$database" setup-schema -v 0.0
  schema "$database" update-schema -d "/etc/temporal/schema/postgresql/v12/${pair#*:}/versioned"
done
