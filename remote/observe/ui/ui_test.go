package ui

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/view"
)

func nothing(context.Context, *view.Query) (*view.Cluster, error) {
	return &view.Cluster{Task: "a", Clock: 1}, nil
}

func get(h http.Handler, target string) *httptest.ResponseRecorder {
	return do(h, http.MethodGet, target, "", nil)
}

func do(h http.Handler, method, target, body string, header map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/", strings.NewReader(body))
	r.URL.Path, r.URL.RawQuery, _ = strings.Cut(target, "?")
	for k, v := range header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestAssets(t *testing.T) {
	h := Handler(nothing)
	for target, kind := range map[string]string{"/": "text/html; charset=utf-8", "/ui/style.css": "text/css; charset=utf-8", "/ui/app.js": "text/javascript; charset=utf-8",
		"/ui/pages/graph.js": "text/javascript; charset=utf-8", "/ui/icon.svg": "image/svg+xml"} {
		w := get(h, target)
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != kind || w.Body.Len() == 0 {
			t.Errorf("%s: %d, %q, %d bytes", target, w.Code, w.Header().Get("Content-Type"), w.Body.Len())
		}
		csp := w.Header().Get("Content-Security-Policy")
		if csp != policy || strings.Contains(csp, "unsafe") || w.Header().Get("X-Content-Type-Options") != "nosniff" || len(w.Header().Values("Set-Cookie")) > 0 {
			t.Errorf("%s: the headers %v", target, w.Header())
		}
		again := do(h, http.MethodGet, target, "", map[string]string{"If-None-Match": w.Header().Get("ETag")})
		if again.Code != http.StatusNotModified || again.Body.Len() != 0 {
			t.Errorf("%s again: %d, %d bytes", target, again.Code, again.Body.Len())
		}
		if w := do(h, http.MethodPost, target, "", nil); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", target, w.Code)
		}
	}
	for _, target := range []string{"/index.html", "/ui", "/ui/", "/ui/../ui.go", "/ui/pages", "/ui/pages/", "/../go.mod", "/ui/..%2fui.go", "/ui/pages/../../ui.go", "/ui/./app.js", "//ui/app.js", "/ui/app.js/", "/etc/passwd", "/ui/api", "/ui/api/",
		"/ui/api/graph", "/ui/api/timeline", "/ui/api/cancel", "/ui/api/nothing", "/ui/testdata/axe.min.js", "/ui/\x00"} {
		w := get(h, target)
		if w.Code == http.StatusOK || w.Header().Get("Content-Security-Policy") != policy {
			t.Errorf("%q: %d, %.80s", target, w.Code, w.Body)
		}
	}
}

// TestAssetsNeedNothingElse checks that pages use only the embedded scripts and styles, and that their imports exist.
func TestAssetsNeedNothingElse(t *testing.T) {
	imports := regexp.MustCompile(`(?m)(?:from|import) "([^"]+)"|(?:src|href)="(/[^"]*)"`)
	inline := regexp.MustCompile(`<script(?:>| [^>]*[^>]>[^<])|<style|\sstyle=|\son\w+=|javascript:|https?://`)
	size := 0
	for at, a := range assets {
		if a.kind == "" {
			t.Errorf("%s has no content type", at)
		}
		size += len(a.content)
		if at != "/ui/icon.svg" { // whose namespace is an address
			if found := inline.Find(a.content); found != nil {
				t.Errorf("%s has %q", at, found)
			}
		}
		for _, m := range imports.FindAllSubmatch(a.content, -1) {
			to := string(m[2])
			if to == "" {
				to = path.Join(path.Dir(at), string(m[1]))
			}
			if _, ok := assets[to]; !ok {
				t.Errorf("%s wants %s, which there is not", at, to)
			}
		}
	}
	files := 0
	if err := fs.WalkDir(embedded, ".", func(_ string, d fs.DirEntry, err error) error {
		if !d.IsDir() {
			files++
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if files != len(assets) || files < 20 {
		t.Errorf("%d files are served, and there are %d", len(assets), files)
	}
	if size > 400<<10 {
		t.Errorf("the pages take %d bytes of the binary", size)
	}
}

func TestEndpoints(t *testing.T) {
	var asked []*view.Query
	see := func(_ context.Context, q *view.Query) (*view.Cluster, error) {
		asked = append(asked, q)
		switch q.Step {
		case 404:
			return nil, status.Errorf(status.NotFound, "nothing is there")
		case 500:
			return nil, status.Errorf(status.DataLoss, "it is gone")
		}
		c := &view.Cluster{Task: "/job:a/replica:0/task:0", Clock: 20e9, Tasks: []*view.Task{{Task: "/job:a/replica:0/task:0", State: "up", Process: &view.Process{Clock: 20e9},
			Steps: []*view.Step{{Id: 1<<53 - 1, Session: "cafe", Master: "/job:a/replica:0/task:0", Began: 10e9, Runs: true, Waits: []*view.Wait{{Node: "n", Op: "Slow", Kind: view.Computing}}}}}}}
		if q.Step == 1 {
			for range 2000 {
				c.Tasks = append(c.Tasks, &view.Task{Task: "another"})
			}
		}
		return c, nil
	}
	h := Handler(see)
	for target, want := range map[string]string{
		"/ui/api/about":                         `{"graph":false,"timeline":false,"cancel":false,"reset":false,"drain":false}`,
		"/ui/api/see?sections=steps":            `"id":9007199254740991`,
		"/ui/api/see?step=404":                  `{"code":"NOT_FOUND","message":"nothing is there"}`,
		"/ui/api/see?step=500":                  `"code":"DATA_LOSS"`,
		"/ui/api/see?step=no":                   `the parameter step cannot be \"no\"`,
		"/ui/api/see?detail=perhaps":            `the parameter detail cannot be \"perhaps\"`,
		"/ui/api/see?who=me":                    `there is no parameter \"who\"`,
		"/ui/api/why":                           `"seconds":10,"text":"{{node n}} (Slow) on /job:a/replica:0/task:0 has been computing"`,
		"/ui/api/why?longer=1h":                 `{"clock":20000000000,"reasons":[]}`,
		"/ui/api/why?longer=long":               `longer is a duration`,
		"/ui/api/see?limit=5&events_after=3":    `"state":"up"`,
		"/ui/api/see?limit=9223372036854775808": `the parameter limit cannot be`,
	} {
		w := get(h, target)
		if !strings.Contains(w.Body.String(), want) || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
		if failed := strings.Contains(w.Body.String(), `"code"`); failed == (w.Code == http.StatusOK) {
			t.Errorf("%s: %d with %s", target, w.Code, w.Body)
		}
	}
	if !slices.ContainsFunc(asked, func(q *view.Query) bool {
		return q.Cluster && q.Limit == 5 && q.EventsAfter == 3 && len(q.Sections) == 0
	}) || !slices.ContainsFunc(asked, func(q *view.Query) bool { return slices.Equal(q.Sections, []string{"steps"}) }) {
		t.Errorf("the cluster was asked %v", asked)
	}

	packed := do(h, http.MethodGet, "/ui/api/see?step=1", "", map[string]string{"Accept-Encoding": "gzip"})
	z, err := gzip.NewReader(bytes.NewReader(packed.Body.Bytes()))
	if err != nil || packed.Header().Get("Content-Encoding") != "gzip" {
		t.Fatal(err, packed.Header())
	}
	text, err := io.ReadAll(z)
	if err != nil || !bytes.Equal(text, get(h, "/ui/api/see?step=1").Body.Bytes()) {
		t.Errorf("compressed, it is another answer: %v", err)
	}
}

func TestGraphsAreGivenWhole(t *testing.T) {
	const total = 10
	changes := 0
	graph := func(_ context.Context, q *view.GraphQuery) (*view.Graph, error) {
		if q.Session != "cafe" || q.Task != "/job:a/replica:0/task:0" {
			return nil, status.Errorf(status.NotFound, "no session %s", q.Session)
		}
		g := &view.Graph{Known: true, Session: q.Session, Nodes: total, First: q.First}
		if changes > 0 && q.First > 0 {
			changes--
			g.Nodes++
		}
		for i := q.First; i < min(q.First+3, total); i++ {
			n := &view.GraphNode{Name: fmt.Sprint("n", i), Op: uint32(len(g.Ops)), Inputs: []uint32{uint32(i)}}
			g.Ops = append(g.Ops, []string{"Mul", "Add"}[i%2])
			g.Devices = []string{"cpu"}
			g.Page = append(g.Page, n)
		}
		return g, nil
	}
	h := Handler(nothing, WithGraph(graph))
	target := "/ui/api/graph?task=/job:a/replica:0/task:0&session=cafe"
	for _, changes = range []int{0, 1, 2} {
		w := get(h, target)
		var got placed
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
			t.Fatal(err, w.Body)
		}
		if len(got.Names) != total || !slices.Equal(got.Ops, []string{"Mul", "Add"}) || !slices.Equal(got.Op, []uint32{0, 1, 0, 1, 0, 1, 0, 1, 0, 1}) || len(got.Inputs) != total || got.Control[3] == nil {
			t.Errorf("the graph is %s", w.Body)
		}
	}
	changes = 1000
	if w := get(h, target); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "changes while it is read") {
		t.Errorf("a graph that always changes: %d %s", w.Code, w.Body)
	}
	if w := get(h, "/ui/api/graph?session=none"); w.Code != http.StatusNotFound {
		t.Errorf("no graph: %d %s", w.Code, w.Body)
	}
	broken := Handler(nothing, WithGraph(func(context.Context, *view.GraphQuery) (*view.Graph, error) {
		return &view.Graph{Known: true, Nodes: 1, Page: []*view.GraphNode{{Name: "n", Op: 7}}}, nil
	}))
	if w := get(broken, target); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "no op or device") {
		t.Errorf("a broken page: %d %s", w.Code, w.Body)
	}
}

// acts records what it is asked for. It may not reset.
type acts struct{ done []string }

func (a *acts) MayAct(context.Context) (cancel, reset, drain bool) { return true, false, true }

func (a *acts) CancelStep(_ context.Context, step uint64) (session, master string, err error) {
	a.done = append(a.done, fmt.Sprint("cancel ", step))
	return "cafe", "m", nil
}

func (a *acts) Reset(_ context.Context, containers []string) error {
	a.done = append(a.done, fmt.Sprint("reset ", containers))
	return status.Errorf(status.PermissionDenied, "not you")
}

func (a *acts) Drain(_ context.Context, task string, within time.Duration) error {
	a.done = append(a.done, fmt.Sprint("drain ", task, " ", within))
	return nil
}

func TestActions(t *testing.T) {
	var done acts
	h := Handler(nothing, WithActs(&done), WithTrace(func(_ context.Context, q *view.TraceQuery) (*view.Trace, error) {
		return &view.Trace{Task: "a", Tasks: []*view.TaskTrace{{Task: "a", Events: []*view.TraceEvent{{Kind: view.KernelEvent, Name: "n", Op: "Mul", Device: "/job:a/replica:0/task:0/device:CPU:0", Step: uint64(q.Steps), Duration: 1000}}}}}, nil
	}))
	if w := get(h, "/ui/api/about"); w.Body.String() != `{"graph":false,"timeline":true,"cancel":true,"reset":false,"drain":true}` {
		t.Errorf("it can %s", w.Body)
	}
	if w := get(h, "/ui/api/timeline?steps=7"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"node":"n","op":"Mul","step":"7"`) {
		t.Errorf("the timeline is %d %s", w.Code, w.Body)
	}
	for _, steps := range []string{"0", "101", "many"} {
		if w := get(h, "/ui/api/timeline?steps="+steps); w.Code != http.StatusBadRequest {
			t.Errorf("a timeline of %s steps: %d %s", steps, w.Code, w.Body)
		}
	}
	asJSON := map[string]string{"Content-Type": "application/json"}
	for _, c := range []struct {
		method, target, body string
		header               map[string]string
		code                 int
	}{
		{http.MethodPost, "/ui/api/cancel", `{"step":7}`, asJSON, http.StatusOK},
		{http.MethodPost, "/ui/api/reset", `{"containers":["a"]}`, asJSON, http.StatusForbidden},
		{http.MethodPost, "/ui/api/reset", `{"containers":[]}`, asJSON, http.StatusForbidden},
		{http.MethodPost, "/ui/api/reset", `{}`, asJSON, http.StatusBadRequest},
		{http.MethodPost, "/ui/api/reset", `{"containers":null}`, asJSON, http.StatusBadRequest},
		{http.MethodPost, "/ui/api/drain", `{"task":"w"}`, asJSON, http.StatusOK},
		{http.MethodPost, "/ui/api/drain", `{"task":"w","seconds":1.5}`, asJSON, http.StatusOK},
		{http.MethodPost, "/ui/api/drain", `{"seconds":1}`, asJSON, http.StatusBadRequest},
		{http.MethodPost, "/ui/api/cancel", `{"step":7}{"step":8}`, asJSON, http.StatusBadRequest},
		{http.MethodPost, "/ui/api/cancel", ``, asJSON, http.StatusBadRequest},
		{http.MethodPost, "/ui/api/cancel", `{}`, asJSON, http.StatusBadRequest},
		{http.MethodPost, "/ui/api/cancel", `{"step":-1}`, asJSON, http.StatusBadRequest},
		{http.MethodPost, "/ui/api/cancel", `{"step":7,"more":1}`, asJSON, http.StatusBadRequest},
		{http.MethodPost, "/ui/api/cancel", strings.Repeat(" ", maxBody) + `{"step":7}`, asJSON, http.StatusBadRequest},
		{http.MethodPost, "/ui/api/cancel", `{"step":7}`, map[string]string{"Content-Type": "text/plain"}, http.StatusBadRequest},
		{http.MethodPost, "/ui/api/cancel", `{"step":7}`, map[string]string{"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site"}, http.StatusForbidden},
		{http.MethodPost, "/ui/api/cancel", `{"step":7}`, map[string]string{"Content-Type": "application/json", "Origin": "http://evil.example"}, http.StatusForbidden},
		{http.MethodGet, "/ui/api/cancel", ``, nil, http.StatusNotFound},
	} {
		if w := do(h, c.method, c.target, c.body, c.header); w.Code != c.code {
			t.Errorf("%s %s %.40q %v: %d %s, want %d", c.method, c.target, c.body, c.header, w.Code, w.Body, c.code)
		}
	}
	if want := []string{"cancel 7", "reset [a]", "reset []", "drain w 0s", "drain w 1.5s"}; !slices.Equal(done.done, want) {
		t.Errorf("done was %q, want %q", done.done, want)
	}
}

// TestLooksAreShared checks that pages that ask for the same at the same time share a look, even if the first of them leaves.
func TestLooksAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		looked := 0
		s := &server{looks: looks{byQuery: map[string]*sharedLook{}}, see: func(ctx context.Context, _ *view.Query) (*view.Cluster, error) {
			mu.Lock()
			looked++
			mu.Unlock()
			select {
			case <-time.After(time.Second):
				return &view.Cluster{}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}
		gone, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 10 {
			ctx := t.Context()
			if i == 0 {
				ctx = gone
			}
			all.Go(func() {
				if _, err := s.look(ctx, &view.Query{}); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		leave()
		all.Wait()
		if looked != 1 {
			t.Errorf("ten pages took %d looks", looked)
		}
		if _, err := s.look(t.Context(), &view.Query{}); err != nil || looked != 1 {
			t.Errorf("just after it, %d looks (%v)", looked, err)
		}
		time.Sleep(2 * fresh)
		if _, err := s.look(t.Context(), &view.Query{}); err != nil || looked != 2 {
			t.Errorf("later, %d looks (%v)", looked, err)
		}
		for i := range maxLooks {
			all.Go(func() { _, _ = s.look(t.Context(), &view.Query{Step: uint64(i + 1)}) })
		}
		synctest.Wait()
		if _, err := s.look(t.Context(), &view.Query{Step: 1000}); status.CodeOf(err) != status.ResourceExhausted {
			t.Errorf("one look too many: %v", err)
		}
		all.Wait()
		time.Sleep(2 * fresh)
		if _, err := s.look(t.Context(), &view.Query{Step: 1000}); err != nil || len(s.looks.byQuery) != 1 {
			t.Errorf("%d looks are kept (%v)", len(s.looks.byQuery), err)
		}
	})
}
