package observe

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/observe/ui"
)

// post asks a handler to act, as one of its own pages does, with a header that may override the page's.
func post(h http.Handler, from, target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(body))
	r.Host, r.RemoteAddr = "127.0.0.1:9090", from
	for _, pair := range [][2]string{{"Content-Type", "application/json"}, {"Origin", "http://127.0.0.1:9090"}, {"Sec-Fetch-Site", "same-origin"}} {
		r.Header.Set(pair[0], pair[1])
	}
	for i := 0; i < len(header); i += 2 {
		switch {
		case header[i] == "Host":
			r.Host = header[i+1]
		case header[i+1] == "":
			r.Header.Del(header[i])
		default:
			r.Header.Set(header[i], header[i+1])
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// pages is the dashboard on a task, with a test's config.
func pages(c Config) (http.Handler, *seen) {
	tasks, task := twoTasks()
	c.Tasks, c.Log = tasks, quiet
	c.UI = ui.Handler(tasks.See, ui.WithActs(tasks))
	if c.Guard != nil {
		c.Guard.OnRefusal(tasks.Refused)
	}
	return Handler(c), task
}

// may is what the pages are told that they may do.
type may struct{ Cancel, Reset, Drain bool }

func can(t *testing.T, w *httptest.ResponseRecorder) may {
	t.Helper()
	var about may
	if err := json.Unmarshal(w.Body.Bytes(), &about); err != nil {
		t.Fatalf("%v: %d %s", err, w.Code, w.Body)
	}
	return about
}

// TestActsWithoutSecurity checks that without certificates, tokens and a policy the pages act only on a loopback interface, and that a
// refusal is an event.
func TestActsWithoutSecurity(t *testing.T) {
	audit, err := access.OpenAudit("", quiet)
	if err != nil {
		t.Fatal(err)
	}
	for name, g := range map[string]*access.Guard{"no guard": nil, "an audit log alone": access.NewGuard(nil, nil, audit)} {
		h, task := pages(Config{local: true, Guard: g})
		if got := can(t, get(h, near, "/ui/api/about")); got != (may{true, true, true}) {
			t.Errorf("%s: on the loopback interface, the pages may %+v", name, got)
		}
		if w := post(h, near, "/ui/api/cancel", `{"step":7}`); w.Code != 200 || w.Body.String() != `{"session":"cafe","master":"/job:w/replica:0/task:0"}` {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		for _, body := range []string{`{"containers":[]}`, `{"containers":["a","b"]}`} {
			if w := post(h, near, "/ui/api/reset", body); w.Code != 200 || w.Body.String() != "{}" {
				t.Errorf("%s: %d %s", name, w.Code, w.Body)
			}
		}
		if w := post(h, near, "/ui/api/drain", `{"task":"/job:w/replica:0/task:1","seconds":2}`); w.Code != 200 || w.Body.String() != "{}" {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		if want := []string{"cancel 7 by " + near, `reset [] by ` + near, `reset ["a" "b"] by ` + near, "drain /job:w/replica:0/task:1 within 2s by " + near}; !slices.Equal(task.done, want) {
			t.Errorf("%s: done was %q, not %q", name, task.done, want)
		}

		h, task = pages(Config{Guard: g})
		if got := can(t, get(h, near, "/ui/api/about")); got != (may{}) {
			t.Errorf("%s: beyond the loopback interface, the pages may %+v", name, got)
		}
		for path, body := range map[string]string{"/ui/api/cancel": `{"step":7}`, "/ui/api/reset": `{"containers":[]}`, "/ui/api/drain": `{"task":"w"}`} {
			if w := post(h, far, path, body); w.Code != 403 || !strings.Contains(w.Body.String(), "does not listen on the loopback interface") {
				t.Errorf("%s: %d %s", name, w.Code, w.Body)
			}
		}
		if len(task.done) != 0 || len(task.refused) != 3 || task.refused[0].Who.String() != "network" || task.refused[0].From != far {
			t.Errorf("%s: done was %q, refused %+v", name, task.done, task.refused)
		}
	}
}

// TestWhoMayAct checks that with a policy or tokens a caller may make the pages do what it may call, and that the pages know that.
func TestWhoMayAct(t *testing.T) {
	const rule = "rules: [{who: client:alice, may: "
	for name, c := range map[string]struct {
		policy string
		token  bool
		code   int // of POST
		about  int // of GET
		may    may
	}{
		"tokens alone":              {"", true, 200, 200, may{true, true, true}},
		"no token":                  {"", false, 401, 401, may{false, false, false}},
		"may all":                   {rule + "all}]", true, 200, 200, may{true, true, true}},
		"may list":                  {rule + "list}]", true, 200, 200, may{false, false, false}},
		"may cancel":                {rule + "[list, cancel]}]", true, 200, 200, may{true, false, false}},
		"may cancel its own":        {rule + "[list, open]}]", true, 200, 200, may{true, false, false}},
		"may reset":                 {rule + "[list, reset]}]", true, 200, 200, may{false, true, false}},
		"may reset and not look":    {rule + "reset}]", true, 200, 403, may{false, false, false}},
		"a stranger with a rule":    {"rules: [{who: loopback, may: list}]", false, 200, 200, may{false, false, false}},
		"a stranger with no rule":   {rule + "all}]", false, 200, 403, may{false, false, false}},
		"a stranger who may cancel": {"rules: [{who: loopback, may: [list, cancel]}]", false, 200, 200, may{true, false, false}},
		"may drain":                 {rule + "[list, drain]}]", true, 200, 200, may{false, false, true}},
	} {
		g, token := guard(t, c.policy)
		h, task := pages(Config{Guard: g})
		var header []string
		if c.token {
			header = []string{"Authorization", "Bearer " + token}
		}
		w := get(h, near, "/ui/api/about", header...)
		if w.Code != c.about {
			t.Errorf("%s: about is %d %s", name, w.Code, w.Body)
		} else if w.Code == 200 {
			if got := can(t, w); got != c.may {
				t.Errorf("%s: may %+v", name, got)
			}
		}
		// The page gets the task's refusals.
		task.refused = nil
		for _, task.refuses = range []error{nil, status.Errorf(status.PermissionDenied, "client:alice may not: the rule at policy.yaml:1")} {
			want := c.code
			if want == 200 && task.refuses != nil {
				want = 403
			}
			if w := post(h, near, "/ui/api/cancel", `{"step":7}`, header...); w.Code != want || want == 403 && !strings.Contains(w.Body.String(), "policy.yaml:1") {
				t.Errorf("%s: cancel is %d %s", name, w.Code, w.Body)
			}
		}
		if c.code == 401 && (len(task.done) > 0 || len(task.refused) != 2 || task.refused[0].What != "login") {
			t.Errorf("%s: done was %q, refused %+v", name, task.done, task.refused)
		}
	}
	// A token that others can read is not accepted.
	g, token := guard(t, "")
	h, task := pages(Config{Guard: g})
	if w := post(h, far, "/ui/api/cancel", `{"step":7}`, "Authorization", "Bearer "+token); w.Code != 401 || len(task.done) > 0 {
		t.Errorf("a token over a network: %d %s", w.Code, w.Body)
	}
}

// TestFormsOfOtherSites checks that a form of another site does not reach the pages, whatever these refuse
// themselves. Links do.
func TestFormsOfOtherSites(t *testing.T) {
	tasks, _ := twoTasks()
	ui := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	h := Handler(Config{Tasks: tasks, UI: ui, Log: quiet, local: true})
	from := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	if w := post(h, near, "/ui/api/cancel", "", append(from, "Origin", "")...); w.Code != http.StatusForbidden {
		t.Errorf("a form: %d %s", w.Code, w.Body)
	}
	if w := get(h, near, "/ui/", from...); w.Code != http.StatusTeapot {
		t.Errorf("a link: %d %s", w.Code, w.Body)
	}
}

// TestOtherSitesCannotAct checks that neither a page of another site nor one whose name resolves to this machine acts, and that only
// requests of the pages do.
func TestOtherSitesCannotAct(t *testing.T) {
	h, task := pages(Config{local: true, Hosts: []string{"cluster.example"}})
	const step = `{"step":7}`
	for name, c := range map[string]struct {
		path, body string
		header     []string
		code       int
	}{
		"another name":              {"/ui/api/cancel", step, []string{"Host", "evil.example:9090", "Origin", "http://evil.example:9090"}, 421},
		"another name like ours":    {"/ui/api/cancel", step, []string{"Host", "127.0.0.1.evil.example", "Origin", "http://127.0.0.1.evil.example"}, 421},
		"another name, no origin":   {"/ui/api/reset", `{"containers":[]}`, []string{"Host", "evil.example", "Origin", ""}, 421},
		"no name":                   {"/ui/api/cancel", step, []string{"Host", ""}, 421},
		"another origin":            {"/ui/api/cancel", step, []string{"Origin", "http://evil.example"}, 403},
		"another port":              {"/ui/api/cancel", step, []string{"Origin", "http://127.0.0.1:9091"}, 403},
		"an opaque origin":          {"/ui/api/cancel", step, []string{"Origin", "null"}, 403},
		"another site":              {"/ui/api/cancel", step, []string{"Origin", "", "Sec-Fetch-Site", "cross-site"}, 403},
		"a site beside":             {"/ui/api/cancel", step, []string{"Origin", "", "Sec-Fetch-Site", "same-site"}, 403},
		"a form of another site":    {"/ui/api/cancel", step, []string{"Origin", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 403},
		"a form":                    {"/ui/api/cancel", step, []string{"Content-Type", "text/plain"}, 400},
		"a form's own kind":         {"/ui/api/cancel", "step=7", []string{"Content-Type", "application/x-www-form-urlencoded"}, 400},
		"no kind":                   {"/ui/api/cancel", step, []string{"Content-Type", ""}, 400},
		"no JSON":                   {"/ui/api/cancel", "7", nil, 400},
		"two values":                {"/ui/api/cancel", step + step, nil, 400},
		"a large body":              {"/ui/api/cancel", strings.Repeat(" ", 1<<17) + step, nil, 400},
		"no step":                   {"/ui/api/cancel", "{}", nil, 400},
		"no containers":             {"/ui/api/reset", "{}", nil, 400},
		"no task":                   {"/ui/api/drain", "{}", nil, 400},
		"a path that reads":         {"/ui/api/see", "{}", nil, 405},
		"a page":                    {"/", "{}", nil, 405},
		"an act below it":           {"/ui/api/cancel/7", step, nil, 405},
		"another endpoint":          {"/api/see", "{}", nil, 405},
		"what is no page of a site": {"/ui/api/cancel", step, []string{"Origin", "", "Sec-Fetch-Site", ""}, 200},
		"our name":                  {"/ui/api/cancel", step, []string{"Host", "localhost:9090", "Origin", "http://localhost:9090"}, 200},
		"our IPv6 address":          {"/ui/api/cancel", step, []string{"Host", "[::1]:9090", "Origin", "http://[::1]:9090"}, 200},
		"a name of a proxy":         {"/ui/api/cancel", step, []string{"Host", "cluster.example", "Origin", "https://cluster.example"}, 403},
		"an address of a proxy":     {"/ui/api/cancel", step, []string{"Host", "192.0.2.7:9090", "Origin", "http://192.0.2.7:9090"}, 403},
	} {
		task.done = nil
		w := post(h, near, c.path, c.body, c.header...)
		if w.Code != c.code || len(task.done) != map[bool]int{true: 1}[c.code == 200] {
			t.Errorf("%s: %d %s, and done was %q", name, w.Code, w.Body, task.done)
		}
		if len(w.Header().Values("Set-Cookie")) > 0 || w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", name, w.Header())
		}
	}
	for host, want := range map[string]bool{"localhost": true, "127.0.0.1:9090": true, "127.8.8.8": true, "[::1]:9090": true, "cluster.example": false, "192.0.2.7:9090": false} {
		if got := can(t, get(h, near, "/ui/api/about", "Host", host)); got != (may{want, want, want}) {
			t.Errorf("as %s, the pages may %+v", host, got)
		}
	}
	g, token := guard(t, "")
	guarded, _ := pages(Config{Hosts: []string{"cluster.example"}, Guard: g}) // with tokens, a proxy may be used
	if w := post(guarded, near, "/ui/api/cancel", step, "Host", "cluster.example", "Origin", "https://cluster.example", "Authorization", "Bearer "+token); w.Code != 200 {
		t.Errorf("through a proxy: %d %s", w.Code, w.Body)
	}
	task.done = nil
	for _, target := range []string{"/ui/api/cancel?step=7", "/ui/api/reset?containers="} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodOptions} {
			r := httptest.NewRequest(method, target, nil)
			r.Host, r.RemoteAddr = "127.0.0.1:9090", near
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != 404 && w.Code != 405 || len(task.done) > 0 {
				t.Errorf("%s %s: %d %s", method, target, w.Code, w.Body)
			}
		}
	}
	// A page whose name resolves to this machine learns from a probe only whether all tasks are ready.
	for path, at := range map[string]string{"/readyz?cluster": "evil.example", "/healthz": "evil.example"} {
		if w := get(h, near, path, "Host", at); strings.Contains(w.Body.String(), "/job:") {
			t.Errorf("%s as %s: %d %s", path, at, w.Code, w.Body)
		}
	}
	var tasks Tasks
	if cancel, reset, drain := tasks.MayAct(t.Context()); cancel || reset || drain {
		t.Error("nobody may act")
	}
	if _, _, err := tasks.CancelStep(t.Context(), 7); status.CodeOf(err) != status.Internal {
		t.Error(err)
	}
	if err := tasks.Reset(t.Context(), nil); status.CodeOf(err) != status.Internal {
		t.Error(err)
	}
}

// TestEndpointsAct checks that only an endpoint on the loopback interface acts for its pages.
func TestEndpointsAct(t *testing.T) {
	for address, code := range map[string]int{"127.0.0.1:0": 200, "localhost:0": 200, ":0": 200, "0.0.0.0:0": 403} {
		tasks, _ := twoTasks()
		e := listen(t, Config{Address: address, Tasks: tasks, UI: ui.Handler(tasks.See, ui.WithActs(tasks))})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1"+e.Address()[strings.LastIndex(e.Address(), ":"):]+"/ui/api/cancel", strings.NewReader(`{"step":7}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		transport := &http.Transport{}
		answer, err := (&http.Client{Transport: transport}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Body.Close(); answer.StatusCode != code {
			t.Errorf("%s: %d", address, answer.StatusCode)
		}
		transport.CloseIdleConnections()
	}
}

var _ ui.Acts = (*Tasks)(nil)
