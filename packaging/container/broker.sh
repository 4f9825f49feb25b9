#!/bin/sh
# The broker of a fleet, in a container of its own: Mosquitto with the files that the fleet server writes into a volume
# that both see. Waits for them at the first start, and has Mosquitto read again what changes. The server can't command
# this container: a changed file is the command, as with the systemd units.
#
#   shoal-broker           run it, until SIGTERM
#   shoal-broker health    exit code 0 where Mosquitto listens, for a health check
set -u

folder=${SHOAL_BROKER_FOLDER:-/var/lib/shoal-fleet/broker}
configuration=$folder/mosquitto.conf

# What is read without a disconnect. A file is replaced as a whole: its inode is another then.
look() { stat -c '%i %Y' "$folder/access" "$folder/crl.pem" "$folder/server.pem" 2>/dev/null; }

is_listening() {
    port=$(sed -n 's/^listener \([0-9]*\) .*/\1/p' "$configuration" 2>/dev/null)
    [ -n "$port" ] && grep -qi ":$(printf '%04x' "$port") [0-9a-f]*:0000 0a " /proc/net/tcp /proc/net/tcp6
}

stop() {
    [ -z "${pid:-}" ] || kill -TERM "$pid" 2>/dev/null
    is_stopping=1
}

if [ "${1:-}" = health ]; then
    is_listening
    exit
fi

is_stopping=
trap stop TERM INT
until [ -e "$configuration" ] && [ -e "$folder/access" ]; do
    [ -z "$is_stopping" ] || exit 0
    sleep 1
done
mosquitto -c "$configuration" &
pid=$!
seen=$(look)
while kill -0 "$pid" 2>/dev/null; do
    sleep 1
    now=$(look)
    if [ "$now" != "$seen" ]; then
        seen=$now
        kill -HUP "$pid" 2>/dev/null
    fi
done
wait "$pid"
