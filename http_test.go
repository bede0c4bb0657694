package troupe

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
)

// fetch gets a page of an HTTP endpoint.
func fetch(t testing.TB, url string) (code int, body string) {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// nothing is a graph with one node, which does nothing.
func nothing(t testing.TB) *graphpb.GraphDef {
	t.Helper()
	s := op.NewScope()
	op.NoOp(s.WithName("nothing"))
	def, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	return def
}

// The tasks of a process share an endpoint, which ends with the last of them.
func TestHTTPEndpointOfACluster(t *testing.T) {
	parallel(t)
	c, err := NewLocalCluster(t.Context(), map[string]int{"ps": 1, "w": 1}, WithHTTP(":0"), silent)
	if err != nil {
		t.Fatal(err)
	}
	at := c.Servers()[0].HTTP()
	if at == "" || c.Servers()[1].HTTP() != at {
		t.Fatalf("endpoints at %q and %q", at, c.Servers()[1].HTTP())
	}
	if code, body := fetch(t, at+"readyz"); code != 200 {
		t.Errorf("%d %s", code, body)
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		code, body := fetch(t, at+"readyz?cluster")
		if code == 200 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d %s", code, body)
		}
	}
	code, body := fetch(t, at+"api/see?cluster&sections=devices")
	var seen struct {
		Tasks []struct {
			Task, State string
			Devices     []struct{ Name string }
		}
	}
	if err := json.Unmarshal([]byte(body), &seen); code != 200 || err != nil || len(seen.Tasks) != 2 || len(seen.Tasks[1].Devices) != 1 || !strings.HasPrefix(seen.Tasks[1].Devices[0].Name, "/job:w/") {
		t.Errorf("%d %v %s", code, err, body)
	}
	session, err := c.Server("w", 0).NewSession(t.Context(), nothing(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := session.Run(t.Context(), nil, nil, []string{"nothing"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := session.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	code, body = fetch(t, at+"metrics")
	for _, line := range []string{
		`troupe_steps_total{code="OK",outcome="ok",task="/job:w/replica:0/task:0"} 3`,
		`troupe_steps_total{code="OK",outcome="ok",task="/job:ps/replica:0/task:0"} 0`,
		`troupe_step_duration_seconds_count{task="/job:w/replica:0/task:0"} 16`, // the first stands for similar steps
		`troupe_steps_running{task="/job:w/replica:0/task:0"} 0`,
		`troupe_sessions{task="/job:w/replica:0/task:0"} 0`,
		`troupe_sessions_opened_total{task="/job:w/replica:0/task:0"} 1`,
		`troupe_actors{kind="session",task="/job:w/replica:0/task:0"} 0`,
		`troupe_cluster_tasks{state="up",task="/job:ps/replica:0/task:0"} 2`,
		`go_goroutines `,
	} {
		if code != 200 || !strings.Contains(body, "\n"+line) {
			t.Errorf("%d, without %s:\n%s", code, line, body)
		}
	}
	if err := c.Server("ps", 0).Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if code, body := fetch(t, at+"healthz"); code != 200 {
		t.Errorf("after the first task has stopped: %d %s", code, body)
	}
	if err := c.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := http.Get(at + "healthz"); err == nil {
		t.Error("the endpoint outlives its tasks")
	}
}

func TestHTTPOptions(t *testing.T) {
	if _, err := NewLocalServer(t.Context(), silent, WithHTTPPprof(true)); status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), "WithHTTP") {
		t.Error(err)
	}
	if _, err := NewLocalServer(t.Context(), silent, WithHTTP(":0"), WithHTTPQueues(0)); status.CodeOf(err) != status.InvalidArgument {
		t.Error(err)
	}
	if _, err := NewLocalServer(t.Context(), silent, WithHTTP("nowhere")); status.CodeOf(err) != status.InvalidArgument {
		t.Error(err)
	}
	s, err := NewLocalServer(t.Context(), silent, WithHTTP(":0"), WithHTTPPprof(true), WithHTTPHosts("a.example"), WithStart(false))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop(context.Background())
	if code, body := fetch(t, s.HTTP()+"readyz"); code != 503 || !strings.Contains(body, s.Task()) {
		t.Errorf("before it serves: %d %s", code, body)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code, body := fetch(t, s.HTTP()+"readyz?cluster"); code != 200 {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := fetch(t, s.HTTP()+"debug/pprof/cmdline"); code != 200 {
		t.Errorf("profiles: %d", code)
	}
	// A server that cannot listen leaves no endpoint.
	if _, err := NewServer(t.Context(), ClusterSpec{"local": {s.Address()}}, silent, WithHTTP(":0")); err == nil {
		t.Error("two servers have one address")
	}
}

// BenchmarkScrape measures one scrape of a task over HTTP.
func BenchmarkScrape(b *testing.B) {
	server, err := NewLocalServer(b.Context(), silent, WithHTTP(":0"))
	if err != nil {
		b.Fatal(err)
	}
	defer server.Stop(context.Background())
	for b.Loop() {
		if code, body := fetch(b, server.HTTP()+"metrics"); code != 200 {
			b.Fatal(code, body)
		}
	}
}

// BenchmarkScraped runs empty steps in the process for some seconds, with a scrape in every other second. It reports the steps of the best
// second of each kind, and how many percent fewer the one with a scrape has.
func BenchmarkScraped(b *testing.B) {
	server, err := NewLocalServer(b.Context(), silent, WithHTTP(":0"))
	if err != nil {
		b.Fatal(err)
	}
	defer server.Stop(context.Background())
	session, err := server.NewSession(b.Context(), nothing(b), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer session.Close(context.Background())
	targets := []string{"nothing"}
	second := func(scrape bool) (steps int) {
		var scraping sync.WaitGroup
		defer scraping.Wait()
		if scrape {
			scraping.Go(func() { fetch(b, server.HTTP()+"metrics") })
		}
		for end := time.Now().Add(time.Second); time.Now().Before(end); steps += 100 {
			for range 100 {
				if _, err := session.Run(b.Context(), nil, nil, targets); err != nil {
					b.Fatal(err)
				}
			}
		}
		return steps
	}
	var alone, scraped int
	for b.Loop() {
		alone, scraped = max(alone, second(false)), max(scraped, second(true))
	}
	b.ReportMetric(float64(alone), "steps/s")
	b.ReportMetric(float64(scraped), "scraped-steps/s")
	b.ReportMetric(100*(1-float64(scraped)/float64(alone)), "percent-less")
}
