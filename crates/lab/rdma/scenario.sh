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
# CLOCK_MONOTONIC of h2 is so many seconds ahead of that of the machine and its other hosts.
ahead_s=7
# clock HOST: sets `with_clock` to what runs a command by the clock of that host.
clock() {
    with_clock=()
    if [[ $1 == 2 ]]; then with_clock=(nsenter --time=/run/clock2); fi
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

# number PORT NAME: a figure of an agent that has no labels.
number() { wget -q -O - "http://127.0.0.1:$1/metrics" | awk -v name="$2" '$1 == name { print $2 }'; }

# microseconds PORT NAME: a time of an agent.
microseconds() {
    wget -q -O - "http://127.0.0.1:$1/metrics" | awk -v name="$2" '$1 == name { printf "%d\n", $2 * 1000000 }'
}

# start_service CONTROL: the service, and an agent for each host. What IP counts is the machine's, so one agent alone reads it: that of h3,
# where all that is marked comes in.
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
    for i in 1 2 3; do
        mkdir -p "/run/h$i"
        cat >"/tmp/agent$i.toml" <<TOML
host = "h$i"
page_dir = "/run/h$i"
[service]
address = "127.0.0.1:7480"
insecure_loopback = true
[counters]
include = ["rxe$i/1"]
$([[ $i == 3 ]] || echo 'exclude = ["ip"]')
sampling_ms = 100
telemetry_ms = 500
[metrics]
listen = "127.0.0.1:749$i"
TOML
        clock "$i"
        "${with_clock[@]}" taskset 2 /tmp/antiphase-agent --config "/tmp/agent$i.toml" >"$out/agent$i-$1.log" 2>&1 &
        programs+=($!)
    done
    for i in 1 2 3; do await eval "[[ \$(metric 749$i antiphase_agent_connected) == 1 ]]"; done
    tell connected "$(uptime_s)"
}

stop_service() {
    kill "${programs[@]}"
    wait "${programs[@]}"
}

# The clock of h2 is ahead of that of h1: by how much as their agents measured it, and by how much these may be off together.
clocks() {
    local offset_1 offset_2
    offset_1=$(number 7491 antiphase_agent_clock_offset_seconds) offset_2=$(number 7492 antiphase_agent_clock_offset_seconds)
    tell clocks "$(awk -v a="$offset_1" -v b="$offset_2" -v c="$(number 7491 antiphase_agent_clock_bound_seconds)" \
        -v d="$(number 7492 antiphase_agent_clock_bound_seconds)" -v ahead="$ahead_s" \
        'BEGIN { off = (a - b - ahead) * 1e6; if (off < 0) off = -off; printf "ahead_us %.0f off_us %.0f bound_us %.0f", (a - b) * 1e6, off, (c + d) * 1e6 }')"
}

# What the service says of a job's marks: a number of it, or a word.
job_says() {
    wget -q -O - "http://127.0.0.1:7480/v1alpha1/jobs?jobs=$1" | sed -n "s/.*\"congestion\":{[^}]*\"$2\":\"\{0,1\}\([a-z0-9_]*\).*/\1/p"
}

# Marks of a job; 0 where nobody has counted yet.
marked_of() {
    local marked
    marked=$(job_says "$1" marked)
    echo "${marked:-0}"
}

# post CALL JSON: a change of the service's plan. What busybox's wget posts has two types of content, which the service refuses.
post() {
    exec 3<>/dev/tcp/127.0.0.1/7480
    printf 'POST /v1alpha1/%s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' \
        "$1" "${#2}" "$2" >&3
    cat <&3 >"$out/$1.answer"
    exec 3>&-
    [[ $(head -n 1 "$out/$1.answer") == *" 200 "* ]] || echo "scenario: $1 is refused: $(tail -n 1 "$out/$1.answer")"
}

# commit COMPUTE_MS [JOB]: two jobs alike, or one, each from a host of its own to h3, which send for 460 ms and pause for so long.
commit() {
    local profile="{\"schema\": \"antiphase.profile/v1\", \"name\": \"writer\", \"period_ns\": $((460 + $1))000000, \"source\": \"declared\",
        \"phases\": [{\"start_ns\": 0, \"duration_ns\": 460000000, \"rate_mbps\": 24, \"collective\": \"ring\", \"scope\": \"data\"}],
        \"ranks\": {\"dp\": 2}}"
    local a="{\"id\": \"a\", \"profile\": $profile, \"hosts\": [\"h1\", \"h3\"]}" b="{\"id\": \"b\", \"profile\": $profile, \"hosts\": [\"h2\", \"h3\"]}"
    if [[ -n ${2:-} ]]; then post commit "{\"jobs\": [$a]}"; else post commit "{\"jobs\": [$a, $b]}"; fi
    await test -e /run/h1/a.page
    [[ -n ${2:-} ]] || await test -e /run/h2/b.page
    sleep 2
}

# write NUMBER OPTION...: a writer on host NUMBER.
write() {
    local number=$1
    shift
    clock "$number"
    "${with_clock[@]}" "$verbs" write --device "rxe$number" --peer 127.0.0.1:7482 --depth 4 --gate-dir "/run/h$number" "$@"
}

# agent_says PORT COUNTER NAME: what an agent says of a counter.
agent_says() { metric "$1" "antiphase_agent_port_$2_total{port=\"$3\"}"; }
# The counters of an agent against those of the kernel: of 100 messages of 16 packets, and of the marks of two writers.
counters() {
    sleep 2
    local packets agent
    packets=$(sent rxe1) agent=$(agent_says 7491 tx_packets rxe1/1)
    write 1 --bytes 6553600 --iterations 1 --compute-ms 0 >"$out/counters.jsonl" 2>&1
    sleep 3
    tell packets kernel $(($(sent rxe1) - packets)) agent $(($(agent_says 7491 tx_packets rxe1/1) - agent)) repeats "$(repeats)"
    # One of both jobs is committed, so all marks that come in at h3 are taken for its own.
    commit 740 a
    local of_job
    packets=$(ip_counter InCEPkts) agent=$(agent_says 7493 ecn_marked_rx ip) of_job=$(marked_of a)
    ANTIPHASE_JOB=a pair counted 6 460 &
    local writers=$!
    # Both writers are of that job by their environment; an agent looks every 5 s.
    await eval "[[ \$(metric 7491 'antiphase_agent_port_queue_pairs{port=\"rxe1/1\",job_id=\"a\"}') == 1 ]]"
    tell pairs of_a "$(metric 7491 'antiphase_agent_port_queue_pairs{port="rxe1/1",job_id="a"}')" of_others "$(metric 7491 'antiphase_agent_port_queue_pairs_of_others{port="rxe1/1"}')"
    wait "$writers"
    sleep 3
    tell marks marks_of_the_kernel $(($(ip_counter InCEPkts) - packets)) marks_of_the_agent $(($(agent_says 7493 ecn_marked_rx ip) - agent)) \
        marks_of_the_job $(($(marked_of a) - of_job)) of_packets "$(job_says a received)" attribution "$(job_says a attribution)"
    post release '{"jobs": ["a"]}'
    clocks
}

# What the service adds to both jobs of a run, and the marks of the kernel meanwhile.
shared_marks() {
    local kernel a b
    kernel=$(ip_counter InCEPkts) a=$(marked_of a) b=$(marked_of b)
    pair "$@"
    sleep 3
    tell shared marks_of_the_kernel $(($(ip_counter InCEPkts) - kernel)) marks_of_both $(($(marked_of a) - a + $(marked_of b) - b)) \
        attribution "$(job_says a attribution)"
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
touch /run/clock2
unshare --time=/run/clock2 --monotonic "$ahead_s" --fork true
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
    if [[ $run == 1 ]]; then shared_marks "contended$run" 8 740; else pair "contended$run" 8 740; fi
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
    # The agent of h1 is gone in the midst of a start of its job, whose end nobody hears.
    pair killed 8 460 gated &
    writers=$!
    await eval "[[ \$(grep -c end_ns '$out/killed.a.jsonl') -ge 3 ]]"
    kill -9 "${programs[1]}"
    wait "$writers"
fi
tell ended "$(uptime_s)"
