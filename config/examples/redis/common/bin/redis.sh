# What health, ready and verify share. Sourced, not run. POSIX sh.
#
# Baton gives ADDR and PORT (the service's env) and BATON_STATE_DIR.

: "${ADDR:?ADDR (the address that Redis binds) is not set: put it in env of the service file}"
: "${PORT:?PORT (the port of Redis) is not set: put it in env of the service file}"

# ask ADDR PORT WORD...: one command to one server; exit 124 if it took longer than 2 s.
ask() {
    host=$1 port=$2
    shift 2
    timeout 2 redis-cli --no-auth-warning -h "$host" -p "$port" "$@" 2>&1 | tr -d '\r'
}

# me WORD...: the same to this host's own server.
me() { ask "$ADDR" "$PORT" "$@"; }

# field NAME: the value of NAME in an INFO-like text on standard input ("name:value" lines).
field() { sed -n "s/^$1://p" | head -n 1; }

# say TEXT...: one line for the operator. Baton shows the last line of output as the reason.
say() { printf '%s\n' "$*"; }

# reached: sets state to up, loading, refused or silent, and answer to what was said.
reached() {
    answer=$(me PING)
    case $answer in
        PONG) state=up ;;
        LOADING*) state=loading ;;
        *"Connection refused"*) state=refused ;;
        '') state=silent answer="no answer within 2 s" ;;
        *) state=other ;;
    esac
}

# formed: whether this server belongs to a cluster with other servers. Remembered in the state
# directory, so that a server that forgot its cluster is not taken for one that never had one.
formed() {
    if [ "$(me CLUSTER INFO | field cluster_known_nodes)" -gt 1 ] 2>/dev/null; then
        [ -e "$BATON_STATE_DIR/was-in-cluster" ] || : >"$BATON_STATE_DIR/was-in-cluster"
        return 0
    fi
    return 1
}

# was_formed: whether it ever belonged to one.
was_formed() { [ -e "$BATON_STATE_DIR/was-in-cluster" ]; }

# in_sync: whether this server is a replica that has everything its primary had a moment ago.
# Asks the primary first and itself afterwards, so under write load the comparison is still exact.
# Sets why when it is not.
in_sync() {
    info=$(me INFO replication)
    primary_host=$(printf '%s\n' "$info" | field master_host)
    primary_port=$(printf '%s\n' "$info" | field master_port)
    if [ "$(printf '%s\n' "$info" | field role)" != slave ]; then
        why="it is no replica"
    elif [ "$(printf '%s\n' "$info" | field master_sync_in_progress)" != 0 ]; then
        why="it still copies the data of its primary $primary_host:$primary_port"
    elif [ "$(printf '%s\n' "$info" | field master_link_status)" != up ]; then
        why="its link to its primary $primary_host:$primary_port is down"
    else
        theirs=$(ask "$primary_host" "$primary_port" INFO replication | field master_repl_offset)
        ours=$(me INFO replication | field slave_repl_offset)
        if [ "${ours:-0}" -ge "${theirs:-x}" ] 2>/dev/null; then
            return 0
        fi
        why="it is at offset ${ours:-unknown}, its primary $primary_host:$primary_port at ${theirs:-unknown}"
    fi
    return 1
}

# now_seconds: seconds since boot; unlike the wall clock it never jumps.
now_seconds() { sed 's/\..*//' /proc/uptime; }
