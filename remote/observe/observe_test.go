package observe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/access"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// seen is a task that returns what it is given, and records the query.
type seen struct {
	cluster *view.Cluster
	asked   chan *view.Query
	refused []access.Event
	done    []string // acts
	refuses error    // acts
}

func (s *seen) Cancel(_ context.Context, by access.Peer, step uint64) (session, master string, err error) {
	s.done = append(s.done, fmt.Sprintf("cancel %d by %s", step, by.From()))
	return "cafe", "/job:w/replica:0/task:0", s.refuses
}

func (s *seen) Reset(_ context.Context, by access.Peer, containers []string) error {
	s.done = append(s.done, fmt.Sprintf("reset %q by %s", containers, by.From()))
	return s.refuses
}

func (s *seen) Drain(_ context.Context, by access.Peer, task string, within time.Duration) error {
	s.done = append(s.done, fmt.Sprintf("drain %s within %v by %s", task, within, by.From()))
	return s.refuses
}

func (s *seen) Refused(e access.Event) { s.refused = append(s.refused, e) }

func (s *seen) Graph(_ context.Context, q *view.GraphQuery) (*view.Graph, error) {
	return &view.Graph{Known: true, Session: q.Session}, nil
}

func (s *seen) Trace(context.Context, *view.TraceQuery) (*view.Trace, error) {
	return &view.Trace{}, nil
}

func (s *seen) See(_ context.Context, q *view.Query) *view.Cluster {
	if s.asked != nil {
		s.asked <- q
	}
	return s.cluster
}

// twoTasks are a cluster with one task that is up, in this process.
func twoTasks() (*Tasks, *seen) {
	s := &seen{cluster: &view.Cluster{Task: "/job:w/replica:0/task:0", Tasks: []*view.Task{
		{Task: "/job:w/replica:0/task:0", State: "up"}, {Task: "/job:w/replica:0/task:1", State: "down", Reason: "its process ended"}}}}
	t := &Tasks{}
	t.Declare("/job:w/replica:0/task:0")
	t.Serve("/job:w/replica:0/task:0", s)
	return t, s
}

// get sends a request to a handler from an address, with a header.
func get(h http.Handler, from, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Host, r.RemoteAddr = "127.0.0.1:9090", from
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		} else {
			r.Header.Set(header[i], header[i+1])
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const (
	near = "127.0.0.1:40000"
	far  = "192.0.2.1:40000"
)

func TestReadiness(t *testing.T) {
	tasks := &Tasks{}
	h := Handler(Config{Tasks: tasks, Log: quiet})
	expect := func(path string, code int, text string) {
		t.Helper()
		if w := get(h, near, path); w.Code != code || !strings.Contains(w.Body.String(), text) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	expect("/healthz", 200, "ok")
	expect("/readyz", 503, "no task serves")
	tasks.Declare("/job:w/replica:0/task:0")
	expect("/readyz", 503, "/job:w/replica:0/task:0")
	_, s := twoTasks()
	tasks.Serve("/job:w/replica:0/task:0", s)
	expect("/readyz", 200, "ok")
	expect("/readyz?cluster", 503, "/job:w/replica:0/task:1 is down: its process ended")
	s.cluster.Tasks[1].State = "up"
	expect("/readyz?cluster", 200, "ok")
	tasks.Leave("/job:w/replica:0/task:0")
	expect("/readyz", 503, "/job:w/replica:0/task:0")
	expect("/api/see", 200, "{") // a draining task can be seen
	if !tasks.Remove("/job:w/replica:0/task:0") {
		t.Error("the only task was not the last")
	}
	expect("/api/see", 503, "no task")
	expect("/healthz", 200, "ok")
}

func TestSee(t *testing.T) {
	tasks, s := twoTasks()
	s.asked = make(chan *view.Query, 1)
	h := Handler(Config{Tasks: tasks, Log: quiet})
	w := get(h, near, "/api/see?sections=steps,queues")
	if w.Code != 400 || !strings.Contains(w.Body.String(), `"queues" is no section`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for path, text := range map[string]string{"step=x": `step cannot be "x"`, "limit=1e3": "limit cannot be", "cluster=maybe": "cluster cannot be", "steps=1": `"steps" is no parameter`, "step=-1": "cannot be"} {
		if w := get(h, near, "/api/see?"+path); w.Code != 400 || !strings.Contains(w.Body.String(), text) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	w = get(h, near, "/api/see?sections=steps,events&sections=links&cluster&tasks=a,b&detail=true&step=7&limit=5&events_after=9&events_after_of=a=4&events_after_of=b=5")
	q := <-s.asked
	if strings.Join(q.Sections, " ") != "steps events links" || !q.Cluster || !q.Detail || q.Step != 7 || q.Limit != 5 || q.EventsAfter != 9 || len(q.Tasks) != 2 || q.EventsAfterOf["a"] != 4 || q.EventsAfterOf["b"] != 5 {
		t.Errorf("the query is %v", q)
	}
	var got struct {
		Tasks []struct{ Task, State, Reason string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); w.Code != 200 || err != nil || len(got.Tasks) != 2 || got.Tasks[1].State != "down" {
		t.Errorf("%d %v %s", w.Code, err, w.Body)
	}
	for name, want := range map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"} {
		if w.Header().Get(name) != want {
			t.Errorf("%s is %q", name, w.Header().Get(name))
		}
	}
	if !strings.HasPrefix(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("the policy for content is %q", w.Header().Get("Content-Security-Policy"))
	}
}

// TestOtherSitesAreRefused checks that a page of another site cannot make a browser read the endpoint, neither under its own name nor from
// its origin.
func TestOtherSitesAreRefused(t *testing.T) {
	tasks, _ := twoTasks()
	h := Handler(Config{Tasks: tasks, Hosts: []string{"cluster.example"}, Log: quiet})
	for _, c := range []struct {
		path   string
		header []string
		code   int
	}{
		{"/api/see", []string{"Host", "evil.example"}, 421},
		{"/api/see", []string{"Host", "127.0.0.1.evil.example:9090"}, 421},
		{"/api/see", []string{"Host", ""}, 421},
		{"/", []string{"Host", "evil.example:9090"}, 421},
		{"/healthz", []string{"Host", "evil.example"}, 200},
		{"/api/see", []string{"Host", "localhost:1"}, 200},
		{"/api/see", []string{"Host", "Cluster.Example."}, 200},
		{"/api/see", []string{"Host", "[::1]:9090"}, 200},
		{"/api/see", []string{"Host", "192.0.2.7"}, 200},
		{"/api/see", []string{"Origin", "http://evil.example"}, 403},
		{"/api/see", []string{"Origin", "null"}, 403},
		{"/api/see", []string{"Origin", "http://127.0.0.1:9091"}, 403},
		{"/api/see", []string{"Origin", "http://127.0.0.1:9090"}, 200},
		{"/api/see", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"/api/see", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"/api/see", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 200},
		{"/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, 403},
		{"/nothing", nil, 404},
		{"/api/nothing", nil, 404},
		{"/debug/pprof/", nil, 404},
	} {
		if w := get(h, near, c.path, c.header...); w.Code != c.code {
			t.Errorf("%s with %q: %d %s", c.path, c.header, w.Code, w.Body)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/api/see", strings.NewReader("{}"))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d", w.Code)
	}
}

// file writes a file that only its user can read.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// guard returns a guard with a policy and a token of alice.
func guard(t *testing.T, policy string) (g *access.Guard, token string) {
	t.Helper()
	token, line, err := access.NewToken("alice", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := access.LoadTokens(access.TokenConfig{File: file(t, line+"\n"), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tokens.Close)
	var p *access.PolicyFile
	if policy != "" {
		if p, err = access.LoadPolicy(access.PolicyConfig{File: file(t, policy), Log: quiet}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
	}
	return access.NewGuard(tokens, p, nil), token
}

func TestWhoMaySeeWhat(t *testing.T) {
	tasks, _ := twoTasks()
	ui := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	g, token := guard(t, "")
	for name, c := range map[string]struct {
		policy, from, token, path string
		code                      int
	}{
		"without a token":               {"", near, "", "/api/see", 401},
		"pages without a token":         {"", near, "", "/", 401},
		"with a token":                  {"", near, "Bearer ", "/api/see", 200},
		"pages with a token":            {"", near, "Bearer ", "/some/page", 418},
		"a browser's password":          {"", near, "basic", "/api/see", 200},
		"a wrong token":                 {"", near, "Bearer x", "/api/see", 401},
		"no base64":                     {"", near, "Basic !", "/api/see", 401},
		"a token that others can read":  {"", far, "Bearer ", "/api/see", 401},
		"a probe":                       {"", far, "", "/healthz", 200},
		"readiness":                     {"", far, "", "/readyz", 200},
		"listing is denied":             {"rules: [{who: client:alice, may: [open, profile]}]", near, "Bearer ", "/api/see", 403},
		"profiling is allowed":          {"rules: [{who: client:alice, may: [open, profile]}]", near, "Bearer ", "/debug/pprof/cmdline", 200},
		"profiling is denied":           {"rules: [{who: client:alice, may: [list]}]", near, "Bearer ", "/debug/pprof/cmdline", 403},
		"listing is allowed":            {"rules: [{who: client:alice, may: [list]}]", near, "Bearer ", "/api/see", 200},
		"nobody has a rule":             {"rules: [{who: client:alice, may: [list]}]", near, "", "/api/see", 403},
		"whoever is on this machine":    {"rules: [{who: loopback, may: [list]}]", near, "", "/api/see", 200},
		"whoever is on another machine": {"rules: [{who: loopback, may: [list]}]", far, "", "/api/see", 403},
	} {
		g, token := g, token
		if c.policy != "" {
			g, token = guard(t, c.policy)
		}
		h := Handler(Config{Tasks: tasks, Guard: g, Pprof: true, UI: ui, Log: quiet})
		var header []string
		switch c.token {
		case "":
		case "basic":
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.SetBasicAuth("me", token)
			header = []string{"Authorization", r.Header.Get("Authorization")}
		case "Bearer ":
			header = []string{"Authorization", c.token + token}
		default:
			header = []string{"Authorization", c.token}
		}
		w := get(h, c.from, c.path, header...)
		if w.Code != c.code || w.Code == 401 && len(w.Header().Values("WWW-Authenticate")) != 2 || strings.Contains(w.Body.String(), token) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	// Only callers that may list are told which tasks are missing.
	h := Handler(Config{Tasks: tasks, Guard: g, Log: quiet})
	if w := get(h, near, "/readyz?cluster"); w.Code != 503 || strings.Contains(w.Body.String(), "task:1") || !strings.Contains(w.Body.String(), "1 missing") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := get(h, near, "/readyz?cluster", "Authorization", "Bearer "+token); w.Code != 503 || !strings.Contains(w.Body.String(), "task:1") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestRefusalsAreEvents checks that a refusal is an event of a task, as refusals of calls are.
func TestRefusalsAreEvents(t *testing.T) {
	tasks, task := twoTasks()
	g, token := guard(t, "rules: [{who: client:alice, may: [open]}]")
	g.OnRefusal(tasks.Refused)
	h := Handler(Config{Tasks: tasks, Guard: g, Log: quiet})
	for _, header := range [][]string{{"Authorization", "Bearer " + token}, {"Authorization", "Bearer x"}} {
		get(h, near, "/api/see", header...)
	}
	if len(task.refused) != 2 {
		t.Fatalf("%d refusals were noted, not 2: %v", len(task.refused), task.refused)
	}
	if e := task.refused[0]; e.What != "list" || e.Who.String() != "client:alice" || e.Refused == nil {
		t.Errorf("the first refusal is %+v", e)
	}
	if e := task.refused[1]; e.What != "login" || e.Refused == nil {
		t.Errorf("the second refusal is %+v", e)
	}
	new(Tasks).Refused(task.refused[0]) // without a task, it is not recorded
}

// listen starts an endpoint that ends with the test.
func listen(t *testing.T, c Config) *Endpoint {
	t.Helper()
	c.Log = quiet
	e, err := Listen(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}

func TestCertificates(t *testing.T) {
	a, ca, err := access.NewAuthority("test", time.Now().Add(2*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	issue := func(a *access.Authority, name access.Name, hosts ...string) access.Pair {
		p, err := a.Issue(access.Request{Name: name, Hosts: hosts, Until: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	server := issue(a, access.TaskName("w", 0), "localhost")
	credentials, err := access.LoadCredentials(access.CredentialConfig{CredentialFiles: access.CredentialFiles{Cert: file(t, string(server.Cert)), Key: file(t, string(server.Key)), CA: file(t, string(ca.Cert))}, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer credentials.Close()
	g, token := guard(t, "")
	tasks, _ := twoTasks()
	with := listen(t, Config{Address: ":0", Tasks: tasks, Credentials: credentials, Guard: g})
	without := listen(t, Config{Address: ":0", Tasks: tasks, Credentials: credentials})
	if !strings.HasPrefix(with.URL(), "https://127.0.0.1:") {
		t.Errorf("the endpoint is at %s", with.URL())
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.Cert)
	stranger, _, err := access.NewAuthority("test", time.Now().Add(2*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		to     *Endpoint
		pair   *access.Pair
		token  string
		path   string
		code   int
		broken bool // no answer: the handshake fails
	}{
		"nothing":                         {with, nil, "", "api/see", 401, false},
		"a probe":                         {with, nil, "", "readyz", 200, false},
		"nothing where none is taken":     {without, nil, "", "api/see", 401, false},
		"a token":                         {with, nil, token, "api/see", 200, false},
		"a token where none is taken":     {without, nil, token, "api/see", 401, false},
		"a certificate":                   {without, new(issue(a, access.ClientName("bob"))), "", "api/see", 200, false},
		"a certificate and a wrong token": {with, new(issue(a, access.ClientName("bob"))), "x", "api/see", 401, false},
		"another authority's certificate": {with, new(issue(stranger, access.ClientName("bob"))), "", "readyz", 0, true},
	} {
		config := &tls.Config{RootCAs: roots, ServerName: "localhost"}
		if c.pair != nil {
			pair, err := tls.X509KeyPair(c.pair.Cert, c.pair.Key)
			if err != nil {
				t.Fatal(err)
			}
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
		transport := &http.Transport{TLSClientConfig: config}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.to.URL()+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		answer, err := (&http.Client{Transport: transport}).Do(r)
		if (err != nil) != c.broken {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			if answer.Body.Close(); answer.StatusCode != c.code {
				t.Errorf("%s: %d", name, answer.StatusCode)
			}
		}
		transport.CloseIdleConnections()
	}
}

func TestWhereItListens(t *testing.T) {
	tasks, _ := twoTasks()
	g, _ := guard(t, "")
	e := listen(t, Config{Address: ":0", Tasks: tasks, Pprof: true})
	if !strings.HasPrefix(e.Address(), "127.0.0.1:") {
		t.Errorf("without a host it listens at %s", e.Address())
	}
	listen(t, Config{Address: "0.0.0.0:0", Tasks: tasks, Pprof: true, Guard: g})
	audited := Config{Address: "0.0.0.0:0", Tasks: tasks, Pprof: true, Guard: access.NewGuard(nil, nil, nil), Log: quiet}
	if _, err := Listen(audited); status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), "everybody's") {
		t.Errorf("a guard that decides nothing: %v", err)
	}
	for address, text := range map[string]string{"0.0.0.0:0": "everybody's", e.Address(): "cannot listen", "9090": "not host:port", "127.0.0.1:http-of-nobody": "unknown port", ":70000": "invalid port"} {
		_, err := Listen(Config{Address: address, Tasks: tasks, Pprof: true, Log: quiet})
		if status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// stuck is a task that shows nothing until it is released.
type stuck struct {
	begun, release chan struct{}
}

func (s *stuck) Refused(access.Event) {}

func (s *stuck) Cancel(context.Context, access.Peer, uint64) (session, master string, err error) {
	return "", "", nil
}

func (s *stuck) Reset(context.Context, access.Peer, []string) error { return nil }

func (s *stuck) Drain(context.Context, access.Peer, string, time.Duration) error { return nil }

func (s *stuck) Graph(context.Context, *view.GraphQuery) (*view.Graph, error) {
	return &view.Graph{}, nil
}

func (s *stuck) Trace(context.Context, *view.TraceQuery) (*view.Trace, error) {
	return &view.Trace{}, nil
}

func (s *stuck) See(context.Context, *view.Query) *view.Cluster {
	s.begun <- struct{}{}
	<-s.release
	return &view.Cluster{}
}

// TestBounds checks that looks that hang neither keep others from being refused, nor the endpoint from stopping.
func TestBounds(t *testing.T) {
	tasks, task := &Tasks{}, &stuck{make(chan struct{}, maxLooks), make(chan struct{})}
	tasks.Declare("w")
	tasks.Serve("w", task)
	e := listen(t, Config{Address: ":0", Tasks: tasks})
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	ask := func() (int, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.URL()+"api/see", nil)
		if err != nil {
			return 0, err
		}
		answer, err := client.Do(r)
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}
	ended := make(chan error, maxLooks)
	for range maxLooks {
		go func() {
			_, err := ask()
			ended <- err
		}()
		<-task.begun
	}
	if code, err := ask(); code != 503 || err != nil {
		t.Errorf("beyond the limit: %d, %v", code, err)
	}
	began := time.Now()
	if err := e.Stop(t.Context()); err != nil || time.Since(began) > 10*stopTime {
		t.Errorf("the endpoint ended after %v: %v", time.Since(began), err)
	}
	for range maxLooks {
		if err := <-ended; err == nil {
			t.Error("a request got an answer from an endpoint that has ended")
		}
	}
	close(task.release)
}
