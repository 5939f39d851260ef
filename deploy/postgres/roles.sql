-- Run once, by the first start of the PostgreSQL container: a role for each, and nobody owns what is another's.
\set ON_ERROR_STOP on
\getenv temporal_password TEMPORAL_DB_PASSWORD
\getenv wms2_password WMS2_DB_PASSWORD

CREATE ROLE temporal LOGIN PASSWORD :'temporal_password';
CREATE DATABASE temporal OWNER temporal;
CREATE DATABASE temporal_visibility OWNER temporal;

CREATE ROLE wms2 LOGIN PASSWORD :'wms2_password';
CREATE DATABASE wms2 OWNER wms2;

REVOKE CONNECT ON DATABASE temporal, temporal_visibility, wms2 FROM PUBLIC;
