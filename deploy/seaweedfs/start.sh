#!/bin/sh
# A store with one key that may do everything in its buckets.
set -eu
umask 077
cat > /tmp/s3.json <<JSON
{"identities": [{"name": "kitbag", "actions": ["Admin", "Read", "Write", "List"],
  "credentials": [{"accessKey": "$S3_ACCESS_KEY", "secretKey": "$S3_SECRET_KEY"}]}]}
JSON
exec weed server -dir=/data -ip=store -ip.bind=0.0.0.0 -s3 -s3.port=8333 -s3.config=/tmp/s3.json
