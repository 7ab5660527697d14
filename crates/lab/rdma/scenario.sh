# What the virtual machine does: inventory, events, counters, and two writers on one queue, as they come and by turns.
# Writes everything to /mnt/out, where the host judges it. The programs are in /mnt/bin.
. /etc/hosts.sh
# Packets of one host stay in order where one processor handles them. The service and the agents have the other.
taskset -p 1 $$ >/dev/null
out=/mnt/out
verbs=/tmp/antiphase-verbs
cp /mnt/bin/* /tmp/

# tell NAME VALUE...: a figure for the host.
tell() { echo "$@" | tee -a "$out/figures"; }
# Loads the modules of a list.
load() { while read -r module; do insmod "/lib/modules/$module"; done <"/etc/modules.$1"; }
# The exit code of `devices`, and its line.
outcome() {
    "$verbs" devices "$@" >"/tmp/devices" 2>"/tmp/line"
    echo "$? $(cat /tmp/line)"
}
# The exit code of the agent's `queues`, and its line.
queues() {
    /tmp/antiphase-agent queues >/tmp/queues 2>/tmp/line
    echo "$? $(cat /tmp/line)"
}
uptime_s() { cut -d ' ' -f 1 /proc/uptime; }
# Waits until a command succeeds, for 60 s at most.
await() {
    local tries
    for ((tries = 0; tries < 300; tries++)); do
        "$@" >/dev/null 2>&1 && return 0
        sleep 0.2
    done
    echo "scenario: in vain: $*"
    return 1
}

inventory() {
    tell missing "$(outcome --library /nowhere/libibverbs.so.1)"
    tell no_kernel "$(outcome)"
    tell queues_no_kernel "$(queues)"
    load verbs
    mdev -s
    tell no_device "$(outcome)"
    tell queues_no_device "$(queues)"
    load rxe
    hosts 3
    mdev -s
    await test -e /sys/class/infiniband/rxe3/ports/1/gids/1
    sleep 1
    tell found "$(outcome)"
    cp /tmp/devices "$out/devices.jsonl"
}

events() {
    "$verbs" events --seconds 6 >"$out/events.jsonl" 2>&1 &
    local reader=$!
    sleep 2
    ip link set h3 down
    sleep 0.5
    ip link set h3 up
    wait "$reader"
    ip route replace 10.9.0.0/24 dev h3 table 103
    local i
    for i in 1 2; do ip neigh replace "10.9.0.$i" lladdr "02:00:00:00:00:0$i" dev h3 nud permanent; done
}

# sent DEVICE: packets that Soft-RoCE has sent.
sent() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/sent_pkts"; }
repeats() { cat /sys/class/infiniband/rxe[12]/ports/1/hw_counters/{completer_retry_err,duplicate_request} | awk '{ n += $1 } END { print n }'; }

# metric PORT NAME...: of an agent. Prints the sum of the series that begin so.
metric() {
    wget -q -O - "http://127.0.0.1:$1/metrics" | awk -v name="$2" 'index($1, name) == 1 { sum += $2 } END { printf "%d\n", sum }'
}

# microseconds PORT NAME: a time of an agent.
microseconds() {
    wget -q -O - "http://127.0.0.1:$1/metrics" | awk -v name="$2" '$1 == name { printf "%d\n", $2 * 1000000 }'
}

# start_service CONTROL: the service, and an agent for each host that has a leader.
start_service() {
    cat >/tmp/fabric.yaml <<'YAML'
schema: antiphase.fabric/v1
name: vm
hosts: [h1, h2, h3]
switches: [{name: s, tier: 1}]
cables:
- {ends: [h1, s], capacity: 24M}
- {ends: [h2, s], capacity: 24M}
- {ends: [h3, s], capacity: 25M}
YAML
    cat >/tmp/topology.toml <<TOML
listen = "127.0.0.1:7480"
state = "/tmp/$1.redb"
fabric = "/tmp/fabric.yaml"
control = "$1"
TOML
    taskset 2 /tmp/antiphase-topology --config /tmp/topology.toml >"$out/topology-$1.log" 2>&1 &
    programs=($!)
    await wget -q -O - http://127.0.0.1:7480/readyz
    local i
    for i in 1 2; do
        mkdir -p "/run/h$i"
        cat >"/tmp/agent$i.toml" <<TOML
host = "h$i"
page_dir = "/run/h$i"
[service]
address = "127.0.0.1:7480"
insecure_loopback = true
[counters]
include = ["rxe$i/1", "ip"]
sampling_ms = 100
telemetry_ms = 500
[metrics]
listen = "127.0.0.1:749$i"
TOML
        taskset 2 /tmp/antiphase-agent --config "/tmp/agent$i.toml" >"$out/agent$i-$1.log" 2>&1 &
        programs+=($!)
    done
    for i in 1 2; do await eval "[[ \$(metric 749$i antiphase_agent_connected) == 1 ]]"; done
    tell connected "$(uptime_s)"
}

stop_service() {
    kill "${programs[@]}"
    wait "${programs[@]}"
}

# post CALL JSON: a change of the service's plan.
post() {
    wget -q -O "$out/$1.json" --header 'content-type: application/json' --post-data "$2" "http://127.0.0.1:7480/v1alpha1/$1" ||
        echo "scenario: $1 is refused"
}

# commit COMPUTE_MS: two jobs alike, each from a host of its own to h3, which send for 460 ms and pause for so long.
commit() {
    local profile="{\"schema\": \"antiphase.profile/v1\", \"name\": \"writer\", \"period_ns\": $((460 + $1))000000, \"source\": \"declared\",
        \"phases\": [{\"start_ns\": 0, \"duration_ns\": 460000000, \"rate_mbps\": 24, \"collective\": \"ring\", \"scope\": \"data\"}],
        \"ranks\": {\"dp\": 2}}"
    post commit "{\"jobs\": [{\"id\": \"a\", \"profile\": $profile, \"hosts\": [\"h1\", \"h3\"]},
        {\"id\": \"b\", \"profile\": $profile, \"hosts\": [\"h2\", \"h3\"]}]}"
    await test -e /run/h1/a.page
    await test -e /run/h2/b.page
    sleep 2
}

# write NUMBER OPTION...: a writer on host NUMBER.
write() {
    local number=$1
    shift
    "$verbs" write --device "rxe$number" --peer 127.0.0.1:7482 --depth 4 --gate-dir "/run/h$number" "$@"
}

# What the agent of h1 says of a counter.
agent_says() { metric 7491 "antiphase_agent_port_$1_total{port=\"$2\"}"; }
# The counters of an agent against those of the kernel: of 100 messages of 16 packets, and of the marks of two writers.
counters() {
    sleep 2
    local packets agent
    packets=$(sent rxe1) agent=$(agent_says tx_packets rxe1/1)
    write 1 --bytes 6553600 --iterations 1 --compute-ms 0 >"$out/counters.jsonl" 2>&1
    sleep 3
    tell packets kernel $(($(sent rxe1) - packets)) agent $(($(agent_says tx_packets rxe1/1) - agent)) repeats "$(repeats)"
    packets=$(ip_counter InCEPkts) agent=$(agent_says ecn_marked_rx ip)
    pair counted 2 460
    sleep 3
    tell marks marks_of_the_kernel $(($(ip_counter InCEPkts) - packets)) marks_of_the_agent $(($(agent_says ecn_marked_rx ip) - agent))
}

# Whose queue pairs are, counters over netlink, and the files of a device, while a job writes that no gate holds.
netlink() {
    ANTIPHASE_JOB=a write 1 --bytes 655360 --iterations 6 --compute-ms 500 >"$out/netlink.writer.jsonl" 2>&1 &
    local writer=$!
    await grep -q end_ns "$out/netlink.writer.jsonl"
    tell queues "$(queues)"
    cp /tmp/queues "$out/queues.jsonl"
    /tmp/antiphase-agent counters >"$out/port-counters.jsonl" 2>&1
    wait "$writer"
    (
        cd /sys/class/infiniband/rxe1
        # There is room for a thousand GIDs, of which two are used.
        for file in * ports/1/* ports/1/*counters/* ports/1/gids/[01] ports/1/gid_attrs/*/[01]; do
            [[ ! -f $file ]] || printf '%s\t%s\n' "$file" "$(cat "$file" 2>/dev/null)"
        done
    ) >"$out/rxe1.tree"
}

# pair NAME ITERATIONS COMPUTE_MS [gated]: both writers at once; the queue's marks, and what each wrote.
pair() {
    local name=$1 iterations=$2 compute=$3 before began one two gate_a=() gate_b=()
    if [[ -n ${4:-} ]]; then gate_a=(--job a) gate_b=(--job b); fi
    before=$(marks s3) began=$(uptime_s)
    # Both have found their other ends by then.
    local start=$((($(date +%s) + 3) * 1000))
    write 1 --bytes 1310720 --start-unix-ms "$start" --compute-ms "$compute" --iterations "$iterations" "${gate_a[@]}" >"$out/$name.a.jsonl" 2>&1 &
    one=$!
    write 2 --bytes 1310720 --start-unix-ms "$start" --compute-ms "$compute" --iterations "$iterations" "${gate_b[@]}" >"$out/$name.b.jsonl" 2>&1 &
    two=$!
    wait "$one" "$two"
    tell "$name" marks $(($(marks s3) - before)) from "$began" to "$(uptime_s)" repeats "$(repeats)"
}

tell begun "$(uptime_s)"
inventory
events
for host in h1 h2; do nic "$host" 24; done
queue s3 25
"$verbs" serve --device rxe3 >"$out/serve.jsonl" 2>&1 &
await grep -q listening "$out/serve.jsonl"
"$verbs" probe --device rxe1 --peer 127.0.0.1:7482 --probes 50 --interval-ms 20 2>&1 | tail -n 1 >"$out/probe-idle.json"
netlink
start_service slots
counters
for run in 1 2 3; do
    # Slots need room: a start that is late by a tenth of a second meets nobody.
    commit 740
    pair "contended$run" 8 740
    pair "slots$run" 8 740 gated
    post release '{"jobs": ["a", "b"]}'
done
pair loaded 4 460 &
writers=$!
sleep 1
"$verbs" probe --device rxe1 --peer 127.0.0.1:7482 --seconds 3 --interval-ms 20 2>&1 | tail -n 1 >"$out/probe-loaded.json"
wait "$writers"
stop_service

start_service turns
# The shortest of several is known by then.
sleep 8
round_trip=$(microseconds 7491 antiphase_agent_clock_rtt_seconds)
tell round_trip us "$round_trip"
if [[ -n $round_trip && $round_trip -le $(cat /mnt/round_trip_max_us) ]]; then
    commit 460
    # The emulator translates what it runs for the first time, and an answer that takes longer than 15 ms is none: the first starts
    # of all go without one.
    pair warm 1 460 gated
    # Three runs in which every start was answered. A busy processor under the emulator makes others, which say nothing of turns.
    answered=0
    for ((run = 4; run < 10 && answered < 3; run++)); do
        pair "contended$run" 8 460
        pair "turns$run" 8 460 gated
        unheard=$(cat "$out/turns$run".[ab].jsonl | grep -c '"gate":"unheard"')
        tell "unheard$run" starts "$unheard"
        if ((unheard == 0)); then answered=$((answered + 1)); fi
    done
fi
tell ended "$(uptime_s)"
