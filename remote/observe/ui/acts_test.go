package ui_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// held is a cluster whose steps can be held up.
type held struct {
	t       *testing.T
	cluster *troupe.LocalCluster
	options []client.Option
}

func hold(t *testing.T, options []client.Option, opts ...troupe.Option) *held {
	t.Helper()
	cluster, err := troupe.NewLocalCluster(t.Context(), map[string]int{"ps": 1, "worker": 2}, append(opts, troupe.WithLogger(slog.New(slog.DiscardHandler)), troupe.WithHTTP("127.0.0.1:0"))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &held{t, cluster, options}
}

// session opens a session with a graph on a task; it ends with the test.
func (c *held) session(job string, index int, build func(*op.Scope) []op.Runnable) (*troupe.Session, []op.Runnable) {
	c.t.Helper()
	s := op.NewScope()
	targets := build(s)
	def, err := s.GraphDef()
	if err != nil {
		c.t.Fatal(err)
	}
	at, err := troupe.Dial(c.t.Context(), c.cluster.Server(job, index).Target(), c.options...)
	if err != nil {
		c.t.Fatal(err)
	}
	session, err := at.NewSession(c.t.Context(), def, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = at.Close(context.Background()) }) // the server may have closed it
	return session, targets
}

// blocked starts a step on the second worker that waits forever for an element of a queue on the ps, and returns a channel with its result.
func (c *held) blocked() <-chan error {
	c.t.Helper()
	session, take := c.session("worker", 1, func(s *op.Scope) []op.Runnable {
		return []op.Runnable{op.QueueDequeueV2(s.WithName("take"), handle(s, "labels", 8), []tensor.DType{tensor.Float32})[0]}
	})
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, err := session.Eval(ctx, nil, take...)
		ended <- err
	}()
	c.t.Cleanup(func() {
		cancel()
		<-over
	})
	return ended
}

// cancelled waits for a step to end as one does that an operator cancels.
func (c *held) cancelled(ended <-chan error) {
	c.t.Helper()
	select {
	case err := <-ended:
		if status.CodeOf(err) != status.Cancelled || !strings.Contains(err.Error(), "cancelled by an operator: the client at 127.0.0.1:") {
			c.t.Errorf("the step ended with %v", err)
		}
	case <-time.After(time.Minute):
		c.t.Fatal("the step did not end")
	}
}

// dialog is the open dialog, chosen its button with the act.
const (
	dialog = `document.querySelector("dialog[open]")`
	chosen = `document.querySelector("dialog[open] button.danger")`
)

// TestActsOfPages cancels steps and empties a container in the pages, once with only the keyboard.
func TestActsOfPages(t *testing.T) {
	b := startBrowser(t)
	c := hold(t, nil)
	base := c.cluster.Servers()[0].HTTP()
	p := b.open(t, 1440, 900)
	rules := axe(t)

	// The overview, by keyboard: the first time the act is abandoned, the second time it is carried out.
	step := c.blocked()
	p.goTo(base + "#/overview")
	p.until("the step that does not end", `document.querySelector("ul.held button.danger")`)
	focus := func(what, condition string) {
		t.Helper()
		for range 200 {
			p.press("Tab")
			var there bool
			if p.eval(condition, &there); there {
				return
			}
		}
		t.Fatalf("the Tab key does not lead to %s", what)
	}
	onCancel := `Boolean(document.activeElement.matches("ul.held button.danger") && document.activeElement.ariaLabel.startsWith("Cancel step "))`
	focus("the button of the step", onCancel)
	p.press("Enter")
	p.until("the dialog, with the focus on what does nothing", dialog+`.innerText.includes("CANCELLED") && document.activeElement.innerText === "Leave it"`)
	p.accessible(rules)
	p.shot("cancel")
	p.press("Escape")
	p.until("no dialog, and the focus where it was", `!`+dialog+` && `+onCancel)
	if len(step) > 0 {
		t.Fatal("the step was cancelled, which was not asked for")
	}
	p.press("Enter")
	p.until("the dialog", dialog)
	p.press("Tab")
	p.until("the focus on the act", `document.activeElement === `+chosen)
	p.press("Enter")
	c.cancelled(step)
	p.until("what became of it", `!`+dialog+` && /Step \d+ of session \w+ on worker:1 is cancelled/.test(document.querySelector("main [role=status].said").innerText)`)
	p.shows("No step has run for more than a second.", "step cancelled")

	// The list of steps.
	step = c.blocked()
	p.goTo(base + "#/steps")
	p.click(`document.querySelector("main tr:not([hidden]) td button[aria-label^='Cancel step']")`)
	p.until("the dialog", dialog)
	p.accessible(rules)
	p.click(chosen)
	c.cancelled(step)
	p.shows("is cancelled", "No step runs at this moment.")

	// A step's own page, and the error of an act that comes too late.
	step = c.blocked()
	p.click(`document.querySelector("main tr:not([hidden]) td a[href^='#/steps?id=']")`)
	p.shows("has waited")
	p.click(`[...document.querySelectorAll("main button.danger")].find((b) => b.innerText === "Cancel the step" && !b.hidden)`)
	p.until("the dialog, which says why the step waits", dialog+`.innerText.includes("has waited")`)
	p.eval(`fetch("/ui/api/cancel", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ step: Number(location.hash.split("id=")[1]) }) })`, nil)
	c.cancelled(step)
	p.click(chosen)
	p.until("the server's error", dialog+`.querySelector("[role=alert]").innerText.includes("it has ended, or never began")`)
	p.accessible(rules)
	p.click(dialog + `.querySelector("button")`)
	p.until("no dialog", `!`+dialog)
	p.shows("The step has ended.")
	if wrong := p.errors(); len(wrong) != 1 || !strings.Contains(wrong[0], "404") { // the browser's line about the answer
		t.Errorf("the page had errors: %s", strings.Join(wrong, "\n"))
	}
}

// TestResetsOfPages empties one container and then the default ones.
func TestResetsOfPages(t *testing.T) {
	b := startBrowser(t)
	c := hold(t, nil)
	base := c.cluster.Servers()[0].HTTP()
	p := b.open(t, 1440, 900)
	rules := axe(t)
	session, all := c.session("ps", 0, func(s *op.Scope) []op.Runnable {
		ps, worker := s.WithDevice("/job:ps/task:0"), s.WithDevice("/job:worker/task:1")
		var out []op.Runnable
		for name, on := range map[string]*op.Scope{"boxed": ps, "elsewhere": worker} {
			v := op.VarHandleOp(on.WithName(name), tensor.Float32, shape.Of(256), attr.Container("box"), attr.SharedName(name))
			out = append(out, op.AssignVariableOp(on, v, op.Const(on, make([]float32, 256))))
		}
		q := op.FIFOQueueV2(ps.WithName("line"), []tensor.DType{tensor.Float32}, attr.Container("box"), attr.SharedName("line"))
		kept := op.VarHandleOp(ps.WithName("kept"), tensor.Float32, shape.Of(4), attr.SharedName("kept"))
		return append(out, op.QueueEnqueueV2(ps, q, []op.Output{op.Const(ps, float32(1))}), op.AssignVariableOp(ps, kept, op.Const(ps, make([]float32, 4))))
	})
	if _, err := session.Eval(t.Context(), nil, all...); err != nil {
		t.Fatal(err)
	}
	empty := `[...document.querySelectorAll("main button.danger")].find((b) => b.innerText === "Empty…")`
	p.goTo(base + "#/memory")
	p.shows("boxed", "elsewhere", "line", "kept")
	p.eval(`(() => { const s = `+empty+`.parentElement.querySelector("select"); s.value = "box"; })()`, nil)
	p.click(empty)
	p.until("what is lost", `((s) => s.includes("2 variables, 1 queue, 2.00 KiB on 2 tasks are lost.") && s.includes("1 session of ps:0, all that it has, is closed."))(`+dialog+`.innerText.replace(/\u202f/g, " "))`)
	p.accessible(rules)
	p.shot("reset")
	p.click(chosen)
	p.shows("The container box is empty, and the sessions of ps:0 are closed.", "kept")
	p.until("the container is empty", `!/boxed|elsewhere|line\b/.test([...document.querySelectorAll("main tbody tr:not([hidden])")].map((r) => r.innerText).join())`)
	if _, err := session.Eval(t.Context(), nil, all...); status.CodeOf(err) != status.Aborted {
		t.Errorf("the session goes on: %v", err)
	}
	p.click(empty)
	p.until("what is lost", dialog+`.innerText.includes("1 variable, ") && `+dialog+`.innerText.includes("0 sessions of ps:0")`)
	p.click(chosen)
	p.shows("The default containers are empty", "There is no such resource.")
	p.goTo(base + "#/events")
	p.shows("reset", "by the client at 127.0.0.1:")
	if wrong := p.errors(); len(wrong) > 0 {
		t.Errorf("the page had errors: %s", strings.Join(wrong, "\n"))
	}
}

// TestDrainOfPages drains one of two tasks, and sees it disappear.
func TestDrainOfPages(t *testing.T) {
	b := startBrowser(t)
	a := spectest.Addresses(t, 2)
	log := slog.New(slog.DiscardHandler)
	drained := make(chan time.Duration, 1)
	servers := make([]*troupe.Server, 2)
	for i := range servers {
		var err error
		if servers[i], err = troupe.NewServer(t.Context(), troupe.ClusterSpec{"w": a}, troupe.WithTask(i), troupe.WithHTTP("127.0.0.1:0"), troupe.WithLogger(log),
			troupe.WithDrainRequests(func(within time.Duration) { drained <- within })); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := servers[i].Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	p := b.open(t, 1440, 900)
	rules := axe(t)
	p.goTo(servers[0].HTTP() + "#/tasks?id=/job:w/replica:0/task:1")
	button := `[...document.querySelectorAll("main button.danger")].find((b) => b.innerText === "Drain…" && !b.hidden)`
	p.click(button)
	p.until("what is lost", `((s) => s.includes("Drain w:1?") && s.includes("0 running steps may continue") && s.includes("0 sessions of it") && !s.includes("These pages"))(`+dialog+`.innerText)`)
	p.accessible(rules)
	p.shot("drain")
	p.click(chosen)
	p.shows("w:1 drains.")
	if within := <-drained; within != 0 {
		t.Errorf("the task is to drain for %v", within)
	}
	if err := servers[1].Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.until("that the task is gone", `/State\s+(down|silent)/.test(document.querySelector("main").innerText) && !`+button)
	p.goTo(servers[0].HTTP() + "#/tasks?id=/job:w/replica:0/task:0")
	p.click(button)
	p.until("that the pages end, too", dialog+`.innerText.includes("These pages are its own")`)
	if wrong := p.errors(); len(wrong) > 0 {
		t.Errorf("the page had errors: %s", strings.Join(wrong, "\n"))
	}
}

// TestPagesOfWhoMayNotAct opens the pages as callers whom a policy allows different acts.
func TestPagesOfWhoMayNotAct(t *testing.T) {
	b := startBrowser(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	token := map[string]string{}
	lines := ""
	for _, who := range []string{"viewer", "operator", "trainer"} {
		text, line, err := access.NewToken(who, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		token[who] = text
		lines += line + "\n"
	}
	tokens, err := access.LoadTokens(access.TokenConfig{File: write("tokens", lines)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tokens.Close)
	const rules = "rules:\n  - {who: client:viewer, may: list}\n  - {who: client:operator, may: [list, cancel, reset], containers: [%s]}\n  - {who: client:trainer, may: [open, list]}\n"
	policy, err := access.LoadPolicy(access.PolicyConfig{File: write("policy.yaml", fmt.Sprintf(rules, `"", a`))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(policy.Close)
	c := hold(t, []client.Option{client.WithToken(token["trainer"])}, troupe.WithTokens(tokens), troupe.WithPolicy(policy))
	base := c.cluster.Servers()[0].HTTP()
	step := c.blocked()
	for _, k := range []struct {
		who             string
		cancels, resets bool
	}{{"viewer", false, false}, {"trainer", true, false}, {"operator", true, true}} {
		p := b.open(t, 1440, 900)
		b.call(p, "Network.enable", nil, nil)
		b.call(p, "Network.setExtraHTTPHeaders", object{"headers": object{"Authorization": "Bearer " + token[k.who]}}, nil)
		for page, has := range map[string]bool{"overview": k.cancels, "steps": k.cancels, "memory": k.resets} {
			p.goTo(base + "#/" + page)
			p.until("the page "+page, fmt.Sprintf(`troupe.took && document.querySelector("nav a[aria-current]").hash === "#/%s"`, page))
			if page != "memory" && k.who != "viewer" { // viewer sees no steps of others
				p.shows("has waited")
			}
			p.until(fmt.Sprintf("buttons on %s of %s: %v", page, k.who, has), fmt.Sprintf(`Boolean(document.querySelector("main button.danger, main td button")) === %v`, has))
		}
		if k.who != "operator" {
			continue
		}
		// The refusal of an act is shown where the act was requested.
		p.goTo(base + "#/memory")
		p.click(`[...document.querySelectorAll("main button.danger")].find((b) => b.innerText === "Empty…")`)
		write("policy.yaml", fmt.Sprintf(rules, "a"))
		if err := policy.Reload(); err != nil {
			t.Fatal(err)
		}
		p.click(chosen)
		p.until("the refusal", dialog+`.querySelector("[role=alert]").innerText.includes("client:operator may not use the default container: the rule at policy.yaml:3")`)
	}
	select {
	case err := <-step:
		t.Errorf("the step ended with %v", err)
	default:
	}
}

// TestOtherSitesInABrowser has a page of another site try to act in the browser of a user that may, and then have its own name resolve to
// the endpoint.
func TestOtherSitesInABrowser(t *testing.T) {
	b := startBrowser(t, "--host-resolver-rules=MAP evil.example 127.0.0.1")
	c := hold(t, nil)
	base := c.cluster.Servers()[0].HTTP()
	endpoint := strings.Trim(strings.TrimPrefix(base, "http://"), "/")
	_, port, err := net.SplitHostPort(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	step := c.blocked()
	own := b.open(t, 1440, 900)
	own.goTo(base + "#/steps")
	own.shows("has waited")
	var id uint64
	own.eval(`troupe.state.tasks.flatMap((t) => t.steps ?? [])[0].id`, &id)

	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>another site</title><iframe name=hidden></iframe>")
	}))
	t.Cleanup(site.Close)
	_, at, err := net.SplitHostPort(site.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p := b.open(t, 1440, 900)
	p.goTo("http://evil.example:" + at + "/")
	p.until("the other site", `document.title === "another site"`)
	// What the page gets to see of the answers, if anything.
	var seen []string
	p.eval(fmt.Sprintf(`(async () => {
		const seen = [];
		const bodies = { cancel: JSON.stringify({ step: %d }), reset: JSON.stringify({ containers: [] }) };
		for (const host of [%q, "evil.example:%s"]) {
			for (const [act, body] of Object.entries(bodies)) {
				for (const how of [{ headers: { "Content-Type": "application/json" } }, { mode: "no-cors" }, { mode: "no-cors", headers: { "Content-Type": "text/plain" } }, { credentials: "include" }]) {
					try {
						seen.push(await (await fetch("http://" + host + "/ui/api/" + act, { method: "POST", body, ...how })).text());
					} catch { /* the browser tells nothing */ }
				}
				const form = document.createElement("form");
				form.method = "POST"; form.enctype = "text/plain"; form.target = "hidden"; form.action = "http://" + host + "/ui/api/" + act;
				const field = document.createElement("input");
				[field.name, field.value] = [body.slice(0, -1) + ',"x":"', '"}'];
				form.append(field);
				document.body.append(form);
				const loaded = new Promise((r) => document.querySelector("iframe").addEventListener("load", r, { once: true }));
				form.submit();
				await loaded;
			}
			for (const path of ["/ui/api/see", "/api/see", "/metrics"]) {
				try {
					seen.push(await (await fetch("http://" + host + path)).text());
				} catch { /* the same */ }
			}
		}
		return seen.filter(Boolean);
	})()`, id, endpoint, port), &seen)
	if len(seen) > 0 {
		t.Errorf("another site reads %q", seen)
	}
	// Its name resolves to the endpoint, so the browser takes both for one site.
	p.goTo("http://evil.example:" + port + "/")
	p.until("the refusal", `location.port === "`+port+`" && document.body.innerText.includes("does not answer under the name")`)
	p.eval(fmt.Sprintf(`(async () => {
		const seen = [];
		for (const path of ["/", "/ui/app.js", "/ui/api/about", "/ui/api/see", "/api/see", "/metrics"]) seen.push((await fetch(path)).status);
		for (const [act, body] of [["cancel", { step: %d }], ["reset", { containers: [] }]]) {
			seen.push((await fetch("/ui/api/" + act, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) })).status);
		}
		return seen.map(String);
	})()`, id), &seen)
	for _, code := range seen {
		if code != "421" {
			t.Errorf("under another name, the endpoint answers %v", seen)
			break
		}
	}
	select {
	case err := <-step:
		t.Errorf("the step ended with %v", err)
	default:
	}
	own.goTo(base + "#/events")
	own.shows("session opened")
	own.until("no act", `!/\b(reset|step cancelled)\b/.test([...document.querySelectorAll("main tbody tr:not([hidden])")].map((r) => r.innerText).join())`)
}
