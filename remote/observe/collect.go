package observe

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/view"
)

const (
	// DefaultQueues is how many queues of a task have their own metrics, unless a Config says otherwise.
	DefaultQueues = 100
	// maxResources is how many resources of a task a scrape reads.
	maxResources = 1 << 14
	// collectTime bounds the look at a task.
	collectTime = 5 * time.Second
)

// metrics serves /metrics. Values are read at each scrape; between scrapes they cost nothing.
func (h *handler) metrics() http.Handler {
	process := prometheus.NewRegistry()
	process.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return bounded(make(chan struct{}, maxLooks), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tasks := prometheus.NewRegistry() // for this scrape: callers see what they may use
		tasks.MustRegister(&collector{ctx: r.Context(), tasks: h.config.Tasks, queues: cmp.Or(h.config.Queues, DefaultQueues), contain: func(do func()) error {
			return contain.Run(h.config.Log, "A scrape", func() error { do(); return nil })
		}})
		promhttp.HandlerFor(prometheus.Gatherers{process, tasks}, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	}))
}

// collector reads the tasks' state when it is scraped.
type collector struct {
	ctx     context.Context // of the scrape
	tasks   *Tasks
	queues  int
	contain func(do func()) error // Prometheus calls Collect on its own goroutines
}

// Describe sends the descriptions of everything that Collect may send.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range all {
		out <- m.desc
	}
}

// Collect sends the metrics of all tasks.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	if err := c.contain(func() { c.collect(out) }); err != nil {
		out <- prometheus.NewInvalidMetric(buildInfo.desc, err)
	}
}

func (c *collector) collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(c.ctx, collectTime)
	defer cancel()
	q := &view.Query{Sections: []string{"devices", "links", "resources"}, Limit: maxResources}
	known := false
	for _, t := range c.tasks.serving() {
		seen := t.See(ctx, q)
		i := slices.IndexFunc(seen.Tasks, func(t *view.Task) bool { return t.Task == seen.Task })
		if i < 0 {
			continue
		}
		s := &scrape{out: out, now: time.Now(), task: seen.Task, queues: c.queues}
		if p := seen.Tasks[i].GetProcess(); p != nil && !known {
			known = true
			s.send(buildInfo, 1, p.Version)
			s.send(memoryInUse, float64(p.MemoryInUse))
			s.send(memoryLimit, float64(p.MemoryLimit))
		}
		s.certificate(seen.Tasks[i].GetProcess())
		s.cluster(seen)
		s.totals(seen.Tasks[i])
		s.links(seen.Tasks[i].Links)
		s.devices(seen.Tasks[i].Devices)
		s.resources(seen.Tasks[i])
		s.data(seen.Tasks[i].GetData())
	}
}

// certificate sends the validity of the task's certificate, if it has one.
func (s *scrape) certificate(p *view.Process) {
	if p.GetCertificateUntil() != 0 {
		s.send(certFrom, float64(p.CertificateFrom)/1e9, s.task)
		s.send(certUntil, float64(p.CertificateUntil)/1e9, s.task)
	}
}

// data sends the metrics of durable containers, if there are any.
func (s *scrape) data(d *view.Data) {
	if d == nil {
		return
	}
	refusing := 0.0
	if d.Refusing != "" {
		refusing = 1
	}
	for m, v := range map[*metric]float64{dataResources: float64(d.Resources), dataDisk: float64(d.DiskBytes), dataPending: float64(d.PendingBytes), dataSteps: float64(d.Steps),
		dataCommits: float64(d.Commits), dataWritten: float64(d.WrittenBytes), dataSync: d.SyncSeconds, dataSplits: float64(d.Splits), dataRefusing: refusing} {
		s.tell(m, v)
	}
}

// scrape is one look at one task.
type scrape struct {
	out    chan<- prometheus.Metric
	now    time.Time
	task   string
	queues int
}

// send sends a metric of the process.
func (s *scrape) send(m *metric, v float64, labels ...string) {
	kind := prometheus.GaugeValue
	if m.kind == "counter" {
		kind = prometheus.CounterValue
	}
	for i := range labels {
		labels[i] = label(labels[i])
	}
	s.out <- prometheus.MustNewConstMetric(m.desc, kind, v, labels...)
}

// tell sends a metric of the task.
func (s *scrape) tell(m *metric, v float64, labels ...string) {
	s.send(m, v, append([]string{s.task}, labels...)...)
}

func (s *scrape) count(m *metric, v int64, labels ...string) { s.tell(m, float64(v), labels...) }

func (s *scrape) flag(m *metric, v bool, labels ...string) {
	n := 0.0
	if v {
		n = 1
	}
	s.tell(m, n, labels...)
}

// since returns the seconds since at; 0 if at is 0.
func (s *scrape) since(at int64) float64 {
	if at == 0 {
		return 0
	}
	return max(s.now.Sub(time.Unix(0, at)), 0).Seconds()
}

func (s *scrape) cluster(c *view.Cluster) {
	states := map[string]int64{"up": 0, "down": 0, "never seen": 0}
	for _, t := range c.Tasks {
		states[t.State]++
	}
	for state, n := range states {
		s.count(declared, n, state)
	}
}

func (s *scrape) totals(t *view.Task) {
	s.tell(startTime, time.Duration(t.GetProcess().GetStarted()).Seconds())
	n := t.GetTotals()
	s.count(sessions, n.GetSessionsOpened()-n.GetSessionsClosed())
	s.count(sessionsOpened, n.GetSessionsOpened())
	s.count(sessionsClosed, n.GetSessionsClosed()-n.GetSessionsExpired(), "close")
	s.count(sessionsClosed, n.GetSessionsExpired(), "lease")
	s.count(eagerContexts, n.GetEagerContexts())
	s.count(eagerHandles, n.GetEagerHandles())
	s.count(eagerFunctions, n.GetEagerFunctions())
	ended := n.GetStepsDone()
	s.count(steps, ended, "ok", status.OK.String())
	for code := status.OK + 1; code <= status.Unauthenticated; code++ { // all of them, so that the first error of a code shows as an increase
		failed := n.GetStepsFailed()[code.String()]
		ended += failed
		s.count(steps, failed, "failed", code.String())
	}
	s.count(stepsRunning, max(n.GetStepsBegun()-ended, 0))
	for m, h := range map[*metric]*view.Histogram{stepSeconds: n.GetStepSeconds(), planSeconds: n.GetPlanSeconds(), remote: n.GetRemoteSeconds()} {
		count, sum, bounds := buckets(h)
		s.out <- prometheus.MustNewConstHistogram(m.desc, count, sum, bounds, s.task)
	}
	s.count(parts, n.GetPartsBegun())
	s.count(connections, n.GetClientConnections())
	for _, k := range n.GetActors() {
		s.count(actors, k.Actors, k.Kind)
		s.count(actorWaiting, k.Waiting, k.Kind)
		s.count(actorMessages, int64(k.Handled), k.Kind)
		s.count(actorPanics, int64(k.Panics), k.Kind)
		s.count(actorRestarts, int64(k.Restarts), k.Kind)
	}
}

func (s *scrape) links(all []*view.Link) {
	for _, l := range all {
		s.flag(linkUp, l.State == "up", l.Task)
		s.count(linkSentBytes, l.BytesSent, l.Task)
		s.count(linkReceivedBytes, l.BytesReceived, l.Task)
		s.count(linkSentMessages, l.MessagesSent, l.Task)
		s.count(linkReceivedMessages, l.MessagesReceived, l.Task)
		s.count(linkQueued, l.Queued, l.Task)
		s.tell(linkStalled, s.since(l.StalledSince), l.Task)
	}
}

func (s *scrape) devices(all []*view.Device) {
	for _, d := range all {
		s.flag(deviceUp, d.Lost == "", d.Name)
		s.count(deviceLosses, d.Losses, d.Name)
		s.count(deviceMemory, d.MemoryInUse, d.Name, "in_use")
		s.count(deviceMemory, d.MemoryIdle, d.Name, "idle")
		s.count(devicePeak, d.MemoryPeak, d.Name)
		s.count(deviceLimit, d.MemoryLimit, d.Name)
		s.count(deviceParts, d.PartsDone-d.PartsFailed, d.Name, "ok")
		s.count(deviceParts, d.PartsFailed, d.Name, "failed")
		s.count(deviceParts, d.PartsRefused, d.Name, "refused")
		s.count(deviceNow, d.PartsRunning, d.Name)
		s.count(programs, d.Programs, d.Name)
	}
}

// queueName identifies a queue.
type queueName struct{ device, container, name string }

func (s *scrape) resources(t *view.Task) {
	kinds, queues := map[string]int64{}, map[queueName]*view.Queue{}
	for _, r := range t.Resources {
		kinds[r.Kind]++
		if r.Queue != nil {
			// Names that are equal after truncation share one metric, which shows the larger queue.
			name := queueName{label(r.Device), label(r.Container), label(r.Name)}
			if q := queues[name]; q == nil || q.Size < r.Queue.Size {
				queues[name] = r.Queue
			}
		}
	}
	for kind, n := range kinds {
		s.count(resources, n, kind)
	}
	s.count(omitted, t.Omitted["resources"])
	names := make([]queueName, 0, len(queues))
	for name := range queues {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b queueName) int {
		return cmp.Or(-cmp.Compare(queues[a].Size, queues[b].Size), cmp.Compare(a.device, b.device), cmp.Compare(a.container, b.container), cmp.Compare(a.name, b.name))
	})
	shown := names[:min(len(names), s.queues)]
	s.count(queuesOmitted, int64(len(names)-len(shown)))
	for _, n := range shown {
		s.queue(n, queues[n])
	}
}

func (s *scrape) queue(n queueName, q *view.Queue) {
	s.count(queueElements, q.Size, n.device, n.container, n.name)
	capacity := float64(q.Capacity)
	if q.Capacity < 0 {
		capacity = math.Inf(1)
	}
	s.tell(queueCapacity, capacity, n.device, n.container, n.name)
	s.count(queueEnqueued, q.Enqueued, n.device, n.container, n.name)
	s.count(queueDequeued, q.Dequeued, n.device, n.container, n.name)
	s.count(queueWaiting, q.EnqueuesWaiting, n.device, n.container, n.name, "enqueue")
	s.count(queueWaiting, q.DequeuesWaiting, n.device, n.container, n.name, "dequeue")
	s.tell(queueWaitedFor, s.since(q.WaitingSince), n.device, n.container, n.name)
	s.flag(queueClosed, q.Closed, n.device, n.container, n.name)
}
