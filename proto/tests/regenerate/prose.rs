//! What the API reference says besides the schema: how to ask, and examples, which a test of the documents runs as they stand.

pub(crate) const BEGIN: &str = r#"# API reference

Every request of the topology service, with every field of what is sent and answered.
Begin with [scheduler-author.md](scheduler-author.md), which goes through the few requests that a scheduler needs; [operating.md](operating.md) has limits and what happens when something fails.
Two things are elsewhere: the verbs for schedulers of Kubernetes in [kubernetes.md](kubernetes.md), and the web page in [page.md](page.md).

This page is made of the [schema](../proto/antiphase/v1alpha1) by the test that makes [openapi.json](../proto/openapi.json), so the two say the same; it is not edited by hand.

- [How to ask](#how-to-ask), [errors](#errors), [gRPC](#grpc)
- [All requests](#all-requests) in tables
- each request: [ask](#requests-ask), [change](#requests-change), [see](#requests-see), [follow](#requests-follow), [draw](#requests-draw), [process](#requests-process)
- [messages](#messages) and [enumerations](#enumerations)

## How to ask

HTTP and gRPC share one port, by default `127.0.0.1:7480`.

```sh
S=http://127.0.0.1:7480/v1alpha1
J="content-type: application/json"
curl -s "$S/fabric?summary"
```

The examples below go on from these lines, on a fresh service with the fabric of [examples/testbed](../examples/testbed/fabric.yaml).

**Who may.** Without certificates the service listens on loopback only, and everybody on the machine is `admin`.
With certificates write `https`, and add `--cacert`, `--cert` and `--key`: the role stands in the client's certificate ([certificates](operating.md#certificates)).
`evaluate` may what `read` may and more, and `admin` may everything.

**Requests.** A POST has a JSON body, and its header `content-type` says so.
Fields that are left out are empty, 0 or false; an `optional` one that is left out is not the same as 0.
Keys that are not known are refused, in bodies and in queries.
In a query a list repeats its key, a boolean may stand alone (`?summary`), and values are percent-encoded (`links=leaf1-%3Espine1`).

**Answers.** Every field is there; an `optional` one without a value is `null`.
Where a request has `fields`, it chooses some: `fields=ranked.id,plan_version` ([what they select](scheduler-author.md#what-you-see)).
Later versions may add fields: a reader ignores those that it does not know.

**Numbers.** The end of a name is its unit: `_ns`, `_us`, `_ms` and `_s` for time, `_mbps` for Mbit/s.
A moment is in fabric time: nanoseconds since the Unix epoch on the service's clock.
Such numbers are above 2^53: read them as integers of 64 bits.

**Changes.** What `if_plan_version`, `idempotency_key` and `lease_ms` do is said at [commit](#post-v1alpha1commit); operating.md has [leases](operating.md#leases) and [keys](operating.md#idempotency-keys) at length.

"#;

pub(crate) const ERRORS: &str = "\
A request that is refused has changed nothing; what may remain after a 503 or a 504 says [operating.md](operating.md#what-happens-when).
The answer is a JSON object, and in gRPC a status with the message and the hint:";

pub(crate) const GRPC: &str = r#"## gRPC

The service is `antiphase.v1alpha1.Topology`, on the same port and with the same roles ([topology.proto](../proto/antiphase/v1alpha1/topology.proto)).
Messages and fields have the names of this page.
Three things differ:

- Values of enumerations have a prefix and capitals: `held` of [JobState](#jobstate) is `JOB_STATE_HELD`. Bodies in JSON take both.
- A query's keys are fields of the request, and the documents of `Solve` and `SetFabric` are too.
- Pictures, the export for other schedulers and the requests of the process are in HTTP only; health is `grpc.health.v1`, and reflection describes the rest.

"#;

pub(crate) const ENUMERATIONS: &str = "JSON has the value as it stands here. In answers of a later version there may be others:";

/// Requests that stand on the page, by the title of their section. They run in the order of the page, on a service with the testbed.
pub(crate) const EXAMPLES: &[(&str, &str)] =
    &[("POST /v1alpha1/evaluate", EVALUATE), ("POST /v1alpha1/commit", COMMIT), ("GET /v1alpha1/jobs", JOBS)];

const EVALUATE: &str = r#"
```sh
curl -s -H "$J" $S/evaluate -o answer.json -d '{
  "jobs": [
    {"id": "a", "model": {"name": "vgg16"}, "hosts": ["h1", "h5"]},
    {"id": "c", "model": {"name": "vgg16"}, "hosts": ["h3", "h7"]},
    {"id": "b", "model": {"name": "vgg16"}}
  ],
  "candidates": [
    {"id": "x", "placements": [{"job": "b", "hosts": ["h2", "h6"]}]},
    {"id": "y", "placements": [{"job": "b", "hosts": ["h9", "h10"]}]}
  ],
  "fields": "plan_version,ranked.id,ranked.mean_score,ranked.zero_shift_mean_score"
}'
python3 -m json.tool --sort-keys answer.json
```

```json
{
    "plan_version": 1,
    "ranked": [
        {
            "id": "x",
            "mean_score": 1.0,
            "zero_shift_mean_score": 0.9293160634920635
        },
        {
            "id": "y",
            "mean_score": 1.0,
            "zero_shift_mean_score": 1.0
        }
    ]
}
```
"#;

const COMMIT: &str = r#"
```sh
curl -s -H "$J" $S/commit -o answer.json -d '{
  "jobs": [
    {"id": "a", "model": {"name": "vgg16"}, "hosts": ["h1", "h5"]},
    {"id": "c", "model": {"name": "vgg16"}, "hosts": ["h3", "h7"]},
    {"id": "b", "model": {"name": "vgg16"}, "hosts": ["h9", "h10"]}
  ],
  "if_plan_version": 1,
  "idempotency_key": "round-1",
  "lease_ms": 600000,
  "fields": "plan_version,moved,score,warnings"
}'
python3 -m json.tool --sort-keys answer.json
```

```json
{
    "moved": [],
    "plan_version": 2,
    "score": 1.0,
    "warnings": [
        "no agent is connected: these jobs are neither held nor measured"
    ]
}
```
"#;

const JOBS: &str = r#"
```sh
FIELDS=plan_version,jobs.id,jobs.state,jobs.hosts,jobs.iteration_ns,jobs.solo_period_ns
curl -s "$S/jobs?jobs=b&fields=$FIELDS" -o answer.json
python3 -m json.tool --sort-keys answer.json
```

```json
{
    "jobs": [
        {
            "hosts": [
                "h9",
                "h10"
            ],
            "id": "b",
            "iteration_ns": null,
            "solo_period_ns": 255000000,
            "state": "committed"
        }
    ],
    "plan_version": 2
}
```
"#;
