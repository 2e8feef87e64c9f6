#!/bin/sh
# The two roles and the database, when the volume is new. psql quotes the passwords.
set -eu
psql --set=ON_ERROR_STOP=1 --username postgres --set=owner="$OWNER_PASSWORD" --set=app="$APP_PASSWORD" <<'SQL'
CREATE ROLE kitbag_owner LOGIN PASSWORD :'owner';
CREATE ROLE kitbag_app LOGIN PASSWORD :'app';
CREATE DATABASE kitbag OWNER kitbag_owner;
SQL
