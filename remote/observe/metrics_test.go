package observe

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/troupe-run/troupe/internal/view"
)

//go:generate go test -run TestMetricsPage -update .

var update = flag.Bool("update", false, "write the pages that tests compare")

// scrapeOf reads the metrics and parses them.
func scrapeOf(t *testing.T, c Config) map[string]*dto.MetricFamily {
	t.Helper()
	c.Log = quiet
	w := get(Handler(c), near, "/metrics")
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	lints, err := promlint.New(bytes.NewReader(w.Body.Bytes())).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lints {
		if strings.HasPrefix(l.Metric, "troupe_") {
			t.Errorf("%s: %s", l.Metric, l.Text)
		}
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// value returns the value of the single metric of a family with the given label values, in the order of the names.
func value(t *testing.T, all map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	t.Helper()
	for _, m := range all[name].GetMetric() {
		var values []string
		for _, l := range m.Label {
			if l.GetName() != "task" {
				values = append(values, l.GetValue())
			}
		}
		if strings.Join(values, "|") == strings.Join(labels, "|") {
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	t.Errorf("there is no %s of %q among %v", name, labels, all[name].GetMetric())
	return math.NaN()
}

// busy is a task with something to report everywhere.
func busy() *view.Cluster {
	const name = "/job:w/replica:0/task:0"
	h := &view.Durations{}
	for _, d := range []time.Duration{time.Microsecond, time.Millisecond, time.Hour} {
		h.Add(d, 1)
	}
	queue := func(name string, size int64) *view.Resource {
		return &view.Resource{Device: "/job:w/replica:0/task:0/device:CPU:0", Kind: "queue", Name: name, Queue: &view.Queue{Size: size, Capacity: -1, Enqueued: size + 3, Dequeued: 3, DequeuesWaiting: 2, WaitingSince: time.Now().Add(-time.Minute).UnixNano(), Closed: true}}
	}
	return &view.Cluster{Task: name, Tasks: []*view.Task{{Task: name, State: "up",
		Data:    &view.Data{Resources: 2, DiskBytes: 41, PendingBytes: 42, Steps: 43, Commits: 44, WrittenBytes: 45, SyncSeconds: 4.5, Splits: 46, Refusing: "full"},
		Process: &view.Process{Version: "v1", MemoryInUse: 5, MemoryLimit: 7, Started: 3e9, CertificateFrom: 4e9, CertificateUntil: 9e9},
		Totals: &view.Totals{SessionsOpened: 9, SessionsClosed: 4, SessionsExpired: 1, StepsBegun: 12, StepsDone: 6, StepsFailed: map[string]int64{"UNAVAILABLE": 3, "OUT_OF_RANGE": 2},
			StepSeconds: h.Histogram(), PlanSeconds: h.Histogram(), RemoteSeconds: h.Histogram(), PartsBegun: 8, EagerContexts: 3, EagerHandles: 31, EagerFunctions: 32, ClientConnections: 2, Actors: []*view.ActorKind{{Kind: "queue", Actors: 1, Waiting: 2, Handled: 3, Panics: 4, Restarts: 2}}},
		Links:   []*view.Link{{Task: "/job:w/replica:0/task:1", State: "up", BytesSent: 10, BytesReceived: 11, MessagesSent: 12, MessagesReceived: 13, Queued: 14, StalledSince: time.Now().Add(-time.Minute).UnixNano()}},
		Devices: []*view.Device{{Name: name + "/device:CPU:0", PartsDone: 7, PartsFailed: 2, PartsRefused: 1, MemoryInUse: 20, MemoryIdle: 21, MemoryPeak: 22}, {Name: name + "/device:GPU:0", Lost: "it fell off the bus", Losses: 1}},
		Resources: []*view.Resource{queue("small", 1), queue("large", 3), queue("larger", 4), queue("bad \xff name\n\"", 2), queue(strings.Repeat("long", 100)+"a", 9), queue(strings.Repeat("long", 100)+"b", 8),
			{Kind: "variable", Name: "v"}},
		Omitted: map[string]int64{"resources": 5}},
		{Task: "/job:w/replica:0/task:1", State: "down"}, {Task: "/job:w/replica:0/task:2", State: "never seen"}}}
}

func TestMetrics(t *testing.T) {
	tasks := &Tasks{}
	if got := scrapeOf(t, Config{Tasks: tasks}); got["go_goroutines"] == nil || got["troupe_steps_total"] != nil {
		t.Error("before a task serves, there are the process's metrics alone")
	}
	tasks.Declare("w")
	tasks.Serve("w", &seen{cluster: busy()})
	const device = "/job:w/replica:0/task:0/device:CPU:0"
	long := strings.Repeat("long", 100)[:maxLabel] + "…"
	got := scrapeOf(t, Config{Tasks: tasks, Queues: 4})
	for _, c := range []struct {
		name   string
		labels []string // without the task
		want   float64
	}{
		{"troupe_build_info", []string{"v1"}, 1},
		{"troupe_memory_in_use_bytes", nil, 5},
		{"troupe_task_start_time_seconds", nil, 3},
		{"troupe_eager_contexts", nil, 3},
		{"troupe_eager_handles", nil, 31},
		{"troupe_eager_functions", nil, 32},
		{"troupe_certificate_start_time_seconds", nil, 4},
		{"troupe_certificate_expiry_time_seconds", nil, 9},
		{"troupe_cluster_tasks", []string{"up"}, 1},
		{"troupe_cluster_tasks", []string{"down"}, 1},
		{"troupe_cluster_tasks", []string{"never seen"}, 1},
		{"troupe_sessions", nil, 5},
		{"troupe_sessions_closed_total", []string{"close"}, 3},
		{"troupe_sessions_closed_total", []string{"lease"}, 1},
		{"troupe_steps_running", nil, 1},
		{"troupe_steps_total", []string{"OK", "ok"}, 6},
		{"troupe_steps_total", []string{"UNAVAILABLE", "failed"}, 3},
		{"troupe_steps_total", []string{"INTERNAL", "failed"}, 0},
		{"troupe_link_up", []string{"/job:w/replica:0/task:1"}, 1},
		{"troupe_link_received_messages_total", []string{"/job:w/replica:0/task:1"}, 13},
		{"troupe_device_parts_total", []string{device, "ok"}, 5},
		{"troupe_device_up", []string{"/job:w/replica:0/task:0/device:GPU:0"}, 0},
		{"troupe_device_memory_bytes", []string{device, "idle"}, 21},
		{"troupe_resources", []string{"queue"}, 6},
		{"troupe_resources_omitted", nil, 5},
		{"troupe_queue_elements", []string{"", device, long}, 9},
		{"troupe_queue_elements", []string{"", device, "bad \uFFFD name \""}, 2},
		{"troupe_queue_capacity", []string{"", device, "large"}, math.Inf(1)},
		{"troupe_queue_waiting", []string{"", device, "dequeue", "large"}, 2},
		{"troupe_queue_closed", []string{"", device, "large"}, 1},
		{"troupe_queues_omitted", nil, 1},
		{"troupe_data_resources", nil, 2},
		{"troupe_data_sync_seconds_total", nil, 4.5},
		{"troupe_data_splits_total", nil, 46},
		{"troupe_data_refusing", nil, 1},
		{"troupe_actor_messages_total", []string{"queue"}, 3},
		{"troupe_actor_panics_total", []string{"queue"}, 4},
		{"troupe_actor_restarts_total", []string{"queue"}, 2},
	} {
		if v := value(t, got, c.name, c.labels...); v != c.want {
			t.Errorf("%s of %q is %v, not %v", c.name, c.labels, v, c.want)
		}
	}
	if n := len(got["troupe_queue_elements"].GetMetric()); n != 4 {
		t.Errorf("%d queues have metrics", n)
	}
	for _, name := range []string{"troupe_link_stalled_seconds", "troupe_queue_longest_wait_seconds"} {
		for _, m := range got[name].GetMetric() {
			if v := m.GetGauge().GetValue(); v < 60 || v > 600 {
				t.Errorf("%s is %v", name, v)
			}
		}
	}
	h := got["troupe_step_duration_seconds"].GetMetric()[0].GetHistogram()
	if h.GetSampleCount() != 3 || h.GetSampleSum() < 3600 || h.GetBucket()[0].GetUpperBound() != 16e-6 || h.GetBucket()[0].GetCumulativeCount() != 1 ||
		h.GetBucket()[23].GetCumulativeCount() != 2 {
		t.Errorf("the histogram is %v", h)
	}
	for _, m := range all {
		if got[m.name] == nil {
			t.Errorf("nothing tells %s", m.name)
		}
	}
}

// TestScrapeThatPanics checks that a panic of a look is an error of only that scrape.
func TestScrapeThatPanics(t *testing.T) {
	tasks := &Tasks{}
	tasks.Declare("w")
	tasks.Serve("w", &seen{cluster: nil})
	if w := get(Handler(Config{Tasks: tasks, Log: quiet}), near, "/metrics"); w.Code != 500 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestMetricsPage checks that docs/metrics.md matches the code. With -update it writes the page.
func TestMetricsPage(t *testing.T) {
	const path = "../../docs/metrics.md"
	b := &strings.Builder{}
	b.WriteString(`# Metrics

What a task tells Prometheus at ` + "`/metrics`" + ` ([observability.md](observability.md)). ` + "`go generate ./remote/observe`" + ` writes this page.
The label ` + "`task`" + ` is the full name of a task, such as ` + "`/job:ps/replica:0/task:0`" + `; ` + "`troupe up`" + ` tells of all its tasks. Besides,
there are the metrics of Go's runtime (` + "`go_*`" + `) and of the process (` + "`process_*`" + `) of Prometheus' Go client.

| metric | type | labels | what it is |
| --- | --- | --- | --- |
`)
	for _, m := range all {
		labels := make([]string, len(m.labels))
		for i, l := range m.labels {
			labels[i] = "`" + l + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, strings.Join(labels, ", "), strings.ReplaceAll(m.help, "|", `\|`))
	}
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != b.String() {
		t.Error("docs/metrics.md is not what the code says: go generate ./remote/observe")
	}
}

// TestLabelsArePrintable checks that names that clients choose control no terminal that shows metrics, and that a label is its own
// label: queues are told apart by their labels, and two of one name would fail the scrape.
func TestLabelsArePrintable(t *testing.T) {
	for r := range rune(0x2100) {
		for _, text := range []string{"a" + string(r) + "b", strings.Repeat(string(r), 300), strings.Repeat("a", maxLabel-1) + string(r) + "bcd"} {
			got := label(text)
			if strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%q becomes the label %q", text, got)
			}
			if again := label(got); again != got {
				t.Errorf("%q becomes the label %q, and that becomes %q", text, got, again)
			}
		}
	}
}
