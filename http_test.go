package troupe

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

// fetch gets a page of an HTTP endpoint.
func fetch(t *testing.T, url string) (code int, body string) {
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

// The tasks of a process share an endpoint, which ends with the last of them.
func TestHTTPEndpointOfACluster(t *testing.T) {
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
	// Of a server that cannot listen, no endpoint is left.
	if _, err := NewServer(t.Context(), ClusterSpec{"local": {s.Address()}}, silent, WithHTTP(":0")); err == nil {
		t.Error("two servers have one address")
	}
}
