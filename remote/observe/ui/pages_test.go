package ui_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/observe/ui"
)

var pictures = flag.String("pictures", "", "a folder to write screenshots of the pages to")

// axe returns the rules of accessibility.
func axe(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "axe-4.10.3.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestPagesShowACluster opens every page on a cluster under load, and checks that it shows the actual state, has no errors and keeps to the
// rules of accessibility, in both colour schemes.
func TestPagesShowACluster(t *testing.T) {
	b := startBrowser(t)
	base := busy(t)
	p := b.open(t, 1440, 900)
	rules := axe(t)
	trace := filepath.Join("testdata", "trace.json")
	p.goTo(base)
	p.shows("No step has run for more than a second.")
	dark := func(on bool) {
		scheme := "light"
		if on {
			scheme = "dark"
		}
		b.call(p, "Emulation.setEmulatedMedia", object{"features": []object{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	}
	for _, c := range []struct {
		name, address string
		shows         []string
		also          func()
	}{
		{"overview", "#/overview", []string{"Tasks up", "3 of 3", "is full (8 elements, capacity 8)", "no running step dequeues from it", "no running step enqueues into it", "step failed", "ps:0"}, func() {
			p.until("steps per second", `[...document.querySelectorAll(".tile")].some((t) => t.innerText.startsWith("Steps per second") && parseFloat(t.querySelector("dd").innerText) > 5)`)
			lines := "ps:0, worker:0, worker:1" // of the single process
			if *pictures != "" {
				lines = "ps:0; worker:0; worker:1"
			}
			p.eval(`import("/ui/format.js").then((f) => { globalThis.format = f; })`, nil)
			p.until("the memory of each process, once", fmt.Sprintf(`((held, tile, lines) => held.length === 3 && lines === %q && tile === format.bytes(lines.includes(";") ? held[0] + held[1] + held[2] : Math.max(...held)))(
				troupe.state.tasks.map((t) => t.process.memory_in_use), [...document.querySelectorAll(".tile")].find((t) => t.innerText.startsWith("Memory in use")).querySelector("dd").innerText,
				[...troupe.state.lines.memory.keys()].join("; "))`, lines))
			p.until("which cluster it is", `/^1 ps, 2 worker at 127.0.0.1:\d+, seen from ps:0$/.test(document.getElementById("cluster").innerText) && document.title.includes("1 ps, 2 worker at 127.0.0.1:")`)
			p.until("a latency", `[...document.querySelectorAll(".tile")].some((t) => t.innerText.startsWith("Latency p99") && /ms|µs|s/.test(t.querySelector("dd").innerText))`)
		}},
		{"steps", "#/steps", []string{"has waited", "bring", "take", "ps:0"}, func() {
			p.until("all of the reasons", `((under) => under.length > 1 && under.every((d) => d.scrollWidth <= d.clientWidth && d.scrollHeight <= d.clientHeight) && under.some((d) => d.innerText.endsWith("and nobody has ever taken one")))([...document.querySelectorAll("main tr.under:not([hidden]) div")])`)
			p.click(`document.querySelector("main td a[href^='#/steps?id=']")`)
			p.shows("The part on", "Why it does not end", "has waited", "resource")
		}},
		{"sessions", "#/sessions", []string{"worker:0", "worker:1", "You must feed a value for placeholder tensor 'never_fed'"}, func() {
			p.click(`[...document.querySelectorAll("main tr")].find((r) => r.innerText.includes("never_fed")).previousElementSibling.querySelector("a[href^='#/sessions?id=']")`)
			p.shows("Steps failed", "step failed")
			p.until("a moment by a clock of 24 hours", `/\nOpened\n\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n/.test(document.querySelector("dl.facts").innerText)`)
		}},
		{"queues", "#/queues", []string{"examples", "full", "labels", "empty", "batches", "flows", "FIFOQueue"}, func() {
			p.click(`[...document.querySelectorAll("main td a")].find((a) => a.innerText === "examples")`)
			p.shows("Who waits", "enqueue", "8 of 8", "bring", "never")
		}},
		{"memory", "#/memory", []string{"layer1/weights", "Var", "CPU:0", "By container"}, nil},
		{"tasks", "#/tasks", []string{"ps:0", "worker:1", "up", "1 CPU"}, func() {
			p.click(`document.querySelector("main td a")`)
			p.shows("Goroutines", "Steps done", "serves")
		}},
		{"links", "#/links", []string{"Between tasks", "worker:0"}, func() { p.until("a link that is up", `document.querySelector("td.up")`) }},
		{"actors", "#/actors", []string{"master", "session", "queue", "container"}, nil},
		{"events", "#/events", []string{"session opened", "step failed"}, nil},
		{"graph", "#/graph", []string{"edges between tasks", "layer1"}, func() {
			p.until("the graph", `troupe.state.graphTook > 0`)
			p.eval(`(() => { const s = document.querySelector("input[type=search]"); s.value = "MatMul"; s.dispatchEvent(new Event("input")); })()`, nil)
			p.shows("nodes match", "MatMul")
			p.click(`[...document.querySelectorAll("main button.link")].find((b) => b.innerText.endsWith("/MatMul"))`)
			p.shows("Inputs", "Taken by", "MatMul on worker:")
		}},
		{"timeline", "#/timeline", []string{"Record", "Open a trace"}, func() {
			p.click(`[...document.querySelectorAll("main button")].find((b) => b.innerText === "Record")`)
			p.shows("the next steps:", "events in")
			p.shot("timeline-recorded")
			text, err := os.ReadFile(trace)
			if err != nil {
				t.Fatal(err)
			}
			quoted, err := json.Marshal(string(text))
			if err != nil {
				t.Fatal(err)
			}
			p.eval(fmt.Sprintf(`(() => {
				const data = new DataTransfer();
				data.items.add(new File([%s], "trace.json", { type: "application/json" }));
				const input = document.querySelector("input[type=file]");
				input.files = data.files;
				input.dispatchEvent(new Event("change"));
			})()`, quoted), nil)
			p.shows("trace.json:", "arrows", "MatMul", "_Recv")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p.t = t
			dark(false)
			p.goTo(base + c.address)
			p.until("the page "+c.name, fmt.Sprintf(`document.querySelector("nav a[aria-current]").hash === %q`, c.address))
			p.shows(c.shows...)
			p.accessible(rules)
			p.shot(c.name)
			if c.also != nil {
				c.also()
				p.accessible(rules)
				p.shot(c.name + "-more")
			}
			dark(true)
			p.accessible(rules)
			p.shot(c.name + "-dark")
			if wrong := p.errors(); len(wrong) > 0 {
				t.Errorf("the page had errors: %s", strings.Join(wrong, "\n"))
			}
		})
	}
	p.t = t
	p.pictureOfThePast(base)
}

// TestKeysOfPages enters the filter and leaves it, which keeps the filter as it is, and opens and closes the list of keys.
func TestKeysOfPages(t *testing.T) {
	b := startBrowser(t)
	server := httptest.NewServer((&made{tasks: 2, sessions: 4, began: time.Now()}).handler())
	defer server.Close()
	p := b.open(t, 1200, 800)
	p.goTo(server.URL + "/#/sessions")
	p.shows("worker:0")
	p.press("/")
	p.press("0")
	p.until("the filter", `document.activeElement.type === "search" && document.activeElement.value === "0"`)
	p.press("Escape")
	p.until("the filter, left", `document.activeElement.id === "main" && document.querySelector("input[type=search]").value === "0" && location.hash.includes("q=0")`)
	p.press("?")
	p.until("the keys", `document.querySelector("dialog[open]").innerText.includes("stops the refresh")`)
	p.accessible(axe(t))
	p.press("Escape")
	p.until("the page again", `!document.querySelector("dialog")`)
	if wrong := p.errors(); len(wrong) > 0 {
		t.Errorf("the page had errors: %s", strings.Join(wrong, "\n"))
	}
}

// TestPagesThatWereLeft leaves every page for another one, and makes the page change its address, by its filter, its order and what it
// shows, before the browser has notified it that it was left. That must not take the user back.
func TestPagesThatWereLeft(t *testing.T) {
	b := startBrowser(t)
	server := httptest.NewServer((&made{tasks: 2, sessions: 4, began: time.Now()}).handler())
	defer server.Close()
	p := b.open(t, 1200, 800)
	p.goTo(server.URL)
	p.until("the list of pages", `document.querySelectorAll("nav a").length >= 11`)
	var pages []string
	p.eval(`[...document.querySelectorAll("nav a")].map((a) => a.hash)`, &pages)
	changed := 0
	for _, at := range pages {
		to := "#/tasks"
		if at == to {
			to = "#/links"
		}
		// A page chooses what it shows once it knows the cluster: the graph then names the session that it shows.
		p.goTo(server.URL + "/#/about-to-leave")
		p.until("no page of that name", `location.hash === "#/about-to-leave" && troupe.state.tasks.length > 0`)
		var could int
		p.eval(fmt.Sprintf(`new Promise((resolve) => {
			addEventListener("hashchange", () => {
				const before = location.hash;
				for (const e of document.querySelectorAll("main input[type=search]")) e.dispatchEvent(new Event("input"));
				for (const e of document.querySelectorAll("main th button")) e.click();
				const could = location.hash !== before || document.querySelectorAll("main input[type=search], main th button").length > 0;
				location.hash = %q;
				for (const e of document.querySelectorAll("main input[type=search]")) e.dispatchEvent(new Event("input"));
				for (const e of document.querySelectorAll("main th button")) e.click();
				troupe.again();
				resolve(Number(could));
			}, { once: true });
			location.hash = %q;
		})`, to, at), &could)
		changed += could
		p.until("the page that was chosen after "+at, fmt.Sprintf(`location.hash === %q && document.querySelector("nav a[aria-current=page]").hash === %q`, to, to))
	}
	if changed < 5 {
		t.Errorf("of %d pages, only %d can change their address", len(pages), changed)
	}
}

// TestPagesOnAPhone opens every page in a window of 390 pixels: only tables and the list of pages are wider, and the buttons that cancel a
// step are in sight.
func TestPagesOnAPhone(t *testing.T) {
	b := startBrowser(t)
	base := busy(t)
	p := b.open(t, 390, 844)
	p.goTo(base)
	p.until("steps that wait", `troupe.state.reasons.length > 1`)
	var pages []string
	p.eval(`[...document.querySelectorAll("nav a")].map((a) => a.hash)`, &pages)
	if len(pages) < 11 {
		t.Fatalf("the pages are %v", pages)
	}
	var step string
	p.eval(`"#/steps?id=" + troupe.state.reasons[0].step`, &step)
	for _, at := range append(pages, step) {
		p.goTo(base + at)
		// A page may add what it shows to its address, as the graph does.
		p.until("the page "+at, fmt.Sprintf(`location.hash.startsWith(%q) && document.querySelector("main > :not(h1)")`, at))
		p.until("a page as wide as the window: "+at, `document.documentElement.scrollWidth <= 390 && document.getElementById("main").scrollWidth <= 390`)
		if at == "#/overview" || strings.HasPrefix(at, "#/steps") {
			p.until("buttons that cancel, in sight: "+at, `((all) => all.length > 0 && all.every((b) => { const r = b.getBoundingClientRect(); return r.left >= 0 && r.right <= 390; }))([...document.querySelectorAll("main button")].filter((b) => b.innerText.startsWith("Cancel") && !b.closest("th")))`)
		}
		p.shot("phone-" + strings.Trim(strings.SplitN(at, "?", 2)[0], "#/"))
	}
	if wrong := p.errors(); len(wrong) > 0 {
		t.Errorf("the page had errors: %s", strings.Join(wrong, "\n"))
	}
}

// pictureOfThePast writes a picture of the overview after it has been shown for some time.
func (p *page) pictureOfThePast(base string) {
	p.t.Helper()
	if *pictures == "" {
		return
	}
	p.b.call(p, "Emulation.setEmulatedMedia", object{"features": []object{{"name": "prefers-color-scheme", "value": "light"}}}, nil)
	p.goTo(base + "#/overview")
	p.until("a minute of the past", `troupe.state.times.at(-1) - troupe.state.times[0] > 58`)
	p.shot("overview-later")
}

// click clicks the element that an expression returns, once it exists.
func (p *page) click(expression string) {
	p.t.Helper()
	p.until("something to click: "+expression, `((e) => e && (e.click(), true))(`+expression+`)`)
}

// shot writes a picture where the command line says so.
func (p *page) shot(name string) {
	p.t.Helper()
	if *pictures != "" {
		p.picture(filepath.Join(*pictures, name+".png"))
	}
}

// TestGraphColours records steps, and colours the graph by device, time and memory: the nodes then have colours of the legend, and not all
// the same.
func TestGraphColours(t *testing.T) {
	b := startBrowser(t)
	base := busy(t)
	p := b.open(t, 1440, 900)
	const choice = `[...document.querySelectorAll("main select")].find((s) => [...s.options].some((o) => o.value === "memory"))`
	colour := func(by string) {
		t.Helper()
		p.eval(fmt.Sprintf(`(() => { const s = %s; s.value = %q; s.dispatchEvent(new Event("change")); })()`, choice, by), nil)
	}
	// filled waits until the graph has at least the given number of the colours as node colours, in stripes as wide as a node.
	filled := func(by string, least int, colours ...string) {
		t.Helper()
		p.until("nodes in colours by "+by, fmt.Sprintf(`(() => {
			const style = getComputedStyle(document.documentElement);
			const rgb = (name) => { const n = parseInt(style.getPropertyValue("--" + name).trim().slice(1), 16); return n >> 16 | n & 0xff00 | (n & 0xff) << 16; };
			const c = document.querySelector("canvas[role=application]");
			const copy = new OffscreenCanvas(c.width, c.height).getContext("2d", { willReadFrequently: true });
			copy.drawImage(c, 0, 0);
			const pixels = new Uint32Array(copy.getImageData(0, 0, c.width, c.height).data.buffer);
			const has = (value) => {
				for (let i = 0, run = 0; i < pixels.length; i++) {
					run = (pixels[i] & 0xffffff) === value ? run + 1 : 0;
					if (run === 20) return true;
				}
				return false;
			};
			const wanted = "%s".split(" ");
			globalThis.found = wanted.filter((name) => has(rgb(name)));
			return found.length >= %d;
		})()`, strings.Join(colours, " "), least))
		var found []string
		p.eval(`found`, &found)
		t.Logf("by %s, nodes are %v", by, found)
	}
	legend := func(texts ...string) {
		t.Helper()
		for _, text := range texts {
			p.until("the legend "+text, fmt.Sprintf(`[...document.querySelectorAll("ul.legend li")].some((l) => l.innerText === %q)`, text))
		}
	}
	p.goTo(base + "#/graph")
	p.until("the graph", `troupe.state.graphTook > 0`)
	colour("time")
	legend("open a trace on the page Timeline first")

	p.goTo(base + "#/timeline")
	p.until("the number of steps", `document.querySelector("main input[type=number]")`)
	p.eval(`(() => { document.querySelector("main input[type=number]").value = "100"; troupe.state.graphTook = 0; })()`, nil)
	p.click(`[...document.querySelectorAll("main button")].find((b) => b.innerText === "Record")`)
	p.shows("the next steps:", "events in")
	p.goTo(base + "#/graph")
	p.until("the graph", `troupe.state.graphTook > 0`)
	legend("ps:0 CPU:0", "worker:0 CPU:0", "between tasks")
	filled("device", 2, "c0", "c1")
	p.shot("graph-device")
	for _, by := range []string{"time", "memory"} {
		colour(by)
		legend("most", "more", "some", "none")
		filled(by, 2, "bad", "c1", "c2")
		p.shot("graph-" + by)
	}
	// The trace has steps of both training sessions, whose nodes have the same names; only those of the shown one count.
	var apart bool
	p.eval(`import("/ui/trace.js").then((m) => {
		const of = (session) => m.costsOf(session).get("layer1_1/MatMul")?.time ?? 0;
		const training = troupe.state.tasks.flatMap((t) => t.sessions ?? []).filter((s) => s.nodes > 100).map((s) => of(s.name));
		return training.length === 2 && training.every((t) => t > 0) && Math.abs(training[0] + training[1] - of("another")) < 1e-3;
	})`, &apart)
	if !apart {
		t.Error("the costs of two sessions are not apart")
	}
	// What a node took is shown beside it, and disappears with its name.
	p.eval(`(() => { const s = document.querySelector("input[type=search]"); s.value = "MatMul"; s.dispatchEvent(new Event("input")); })()`, nil)
	p.click(`[...document.querySelectorAll("main button.link")].find((b) => b.innerText === "layer1_1/MatMul")`)
	p.until("what it took", `/MatMul on worker:\d CPU:0\s+[\d.]+\s(ns|µs|ms|s) in the trace, [\d.]+\s(B|KiB|MiB) put out/.test(document.getElementById("main").innerText)`)
	colour("")
	legend("ps:0 CPU:0")
	filled("device", 1, "c0", "c1")
	if wrong := p.errors(); len(wrong) > 0 {
		t.Errorf("the page had errors: %s", strings.Join(wrong, "\n"))
	}
}

// TestPagesByKeyboard uses the dashboard without a pointer.
func TestPagesByKeyboard(t *testing.T) {
	b := startBrowser(t)
	server := httptest.NewServer(large().handler())
	defer server.Close()
	p := b.open(t, 1200, 800)
	p.goTo(server.URL + "/#/queues")
	p.shows("queue-0-1")
	press := p.press
	press("/")
	p.until("the focus in the filter", `document.activeElement.type === "search"`)
	b.call(p, "Input.insertText", object{"text": "queue-7-11 full"}, nil)
	p.until("the filter in the address", `location.hash.includes("q=queue-7-11+full")`)
	p.until("the filter's rows", `[...document.querySelectorAll("main tbody tr:not([hidden]):not(.spacer):not(.under)")].every((r) => r.innerText.includes("queue-7-11") && r.innerText.includes("full"))`)
	p.eval(`document.activeElement.blur()`, nil)
	press("p")
	p.until("the pause", `document.getElementById("pause").getAttribute("aria-pressed") === "true"`)
	press("p")
	p.until("the refresh", `document.getElementById("live").className === "on"`)

	p.goTo(server.URL + "/#/graph")
	p.until("the graph", `troupe.state.graphTook > 0`)
	p.eval(`document.querySelector("canvas[role=application]").focus()`, nil)
	press("ArrowRight")
	press("Enter")
	p.until("the opened group", `location.hash.includes("scope=")`)
	press("Backspace")
	p.until("the way back", `!location.hash.includes("scope=")`)
	if wrong := p.errors(); len(wrong) > 0 {
		t.Errorf("the page had errors: %s", strings.Join(wrong, "\n"))
	}
}

// TestPagesOutliveALostRequest loses a request on its way: the page says so, asks again and shows the new state.
func TestPagesOutliveALostRequest(t *testing.T) {
	b := startBrowser(t)
	pages := (&made{tasks: 2, began: time.Now()}).handler()
	var looks atomic.Int64
	lost := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ui/api/see" && looks.Add(1) == 2 {
			select {
			case <-r.Context().Done():
				close(lost)
			case <-t.Context().Done():
			}
			return
		}
		pages.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close) // the test's context has ended by then
	p := b.open(t, 1200, 800)
	p.goTo(server.URL + "/#/overview")
	p.until("that the request was lost", `document.getElementById("live").innerText.includes("has not answered for 15 s")`)
	<-lost
	p.until("the next look", `document.getElementById("live").className === "on"`)
	p.until("steps per second", `[...document.querySelectorAll(".tile")].some((t) => t.innerText.startsWith("Steps per second") && parseFloat(t.querySelector("dd").innerText) > 5)`)
}

// refreshLimit bounds the time of a refresh in the browser, in milliseconds. A quiet machine takes a tenth of it.
const refreshLimit = 500

// TestPagesOfALargeCluster opens the pages on 64 tasks with 1,000 sessions, 10,000 queues and a graph of 50,000 nodes.
func TestPagesOfALargeCluster(t *testing.T) {
	if !extent.Check() {
		t.Skip("make check runs it: the pages of 10,000 queues take a browser half a minute")
	}
	b := startBrowser(t)
	cluster := large()
	server := httptest.NewServer(cluster.handler())
	defer server.Close()
	p := b.open(t, 1440, 900)
	rules := axe(t)
	for name, shows := range map[string]string{"overview": "64 of 64", "sessions": "worker:", "queues": "10 000 queues", "memory": "10 000 resources", "tasks": "worker:5", "links": "Between tasks", "actors": "actors",
		"events": "events", "steps": "has waited"} {
		t.Run(name, func(t *testing.T) {
			p.t = t
			p.goTo(server.URL + "/#/" + name)
			p.until(shows, fmt.Sprintf(`document.getElementById("main").innerText.replace(/\u202f/g, " ").includes(%q)`, shows))
			// The fastest of several refreshes: other load on the machine does not count.
			var took []float64
			p.eval(`(async () => {
				const all = [];
				let last = troupe.took;
				const end = performance.now() + 20000;
				while (all.length < 3 && performance.now() < end) {
					await new Promise((r) => setTimeout(r, 50));
					if (troupe.took && troupe.took !== last) { last = troupe.took; all.push(last.shown); }
				}
				return all;
			})()`, &took)
			if len(took) == 0 {
				t.Fatal("the page was not refreshed")
			}
			best := took[0]
			for _, ms := range took {
				best = min(best, ms)
			}
			t.Logf("a refresh takes %.1f ms in the browser, of %v", best, took)
			if best > refreshLimit {
				t.Errorf("a refresh takes %.0f ms, more than %d ms", best, refreshLimit)
			}
			p.accessible(rules)
			p.shot("large-" + name)
			var rows int
			p.eval(`document.querySelectorAll("main tbody tr").length`, &rows)
			if rows > 300 {
				t.Errorf("the document has %d rows of tables", rows)
			}
		})
	}
	t.Run("graph", func(t *testing.T) {
		p.t = t
		p.goTo(server.URL + "/#/graph")
		p.until("the graph", `troupe.state.graphTook > 0`)
		var took float64
		p.eval(`troupe.state.graphTook`, &took)
		t.Logf("a graph of 50,000 nodes is folded and placed in %.0f ms", took)
		if took > 4*refreshLimit {
			t.Errorf("the graph took %.0f ms", took)
		}
		var frames []float64
		p.eval(`(async () => {
			const canvas = document.querySelector("canvas[role=application]"), all = [];
			for (let i = 0; i < 10; i++) {
				const began = performance.now();
				canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: i < 5 ? -120 : 120, bubbles: true, cancelable: true }));
				await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
				all.push(performance.now() - began);
			}
			return all;
		})()`, &frames)
		best := frames[0]
		for _, ms := range frames {
			best = min(best, ms)
		}
		t.Logf("a zoom is drawn within %.1f ms, of %v", best, frames)
		if best > 200 {
			t.Errorf("a zoom takes %.0f ms", best)
		}
		p.accessible(rules)
		p.shot("large-graph")
	})
	if wrong := p.errors(); len(wrong) > 0 {
		t.Errorf("the page had errors: %s", strings.Join(wrong, "\n"))
	}
}

// made is an invented cluster.
type made struct {
	tasks, sessions, queues, nodes int
	began                          time.Time
}

func large() *made { return &made{64, 1000, 10_000, 50_000, time.Now()} }

func (m *made) handler() http.Handler { return ui.Handler(m.see, ui.WithGraph(m.graph)) }

func (m *made) task(i int) string {
	if i < 1 {
		return "/job:ps/replica:0/task:0"
	}
	return fmt.Sprintf("/job:worker/replica:0/task:%d", i-1)
}

// see reports values that grow with the time, differently for each task.
func (m *made) see(_ context.Context, q *view.Query) (*view.Cluster, error) {
	now := time.Now()
	age := now.Sub(m.began).Seconds() + 100
	wants := func(section string) bool {
		if len(q.Sections) == 0 {
			return true
		}
		for _, s := range q.Sections {
			if s == section {
				return true
			}
		}
		return false
	}
	c := &view.Cluster{Task: m.task(0), Spec: "made up", Clock: now.UnixNano()}
	for i := range m.tasks {
		speed := float64(50 + i*7%40)
		t := &view.Task{Task: m.task(i), Address: fmt.Sprintf("10.0.0.%d:2222", i+1), State: "up", Since: m.began.UnixNano(),
			Process: &view.Process{Boot: fmt.Sprint("boot", i), Host: fmt.Sprint("host-", i), Pid: int64(1000 + i), Started: m.began.UnixNano(), Clock: now.UnixNano(), MemoryInUse: int64(1e9 + 1e7*age + 3e7*float64(i)),
				MemoryLimit: 16 << 30, Goroutines: 100, Processors: 8, CpuSeconds: age * 3, Resident: 2 << 30, Heap: 1 << 28},
			Totals: &view.Totals{SessionsOpened: 20, SessionsClosed: 4, StepsBegun: int64(age*speed) + 3, StepsDone: int64(age * speed), StepsFailed: map[string]int64{"ABORTED": int64(age / 4)},
				StepSeconds: &view.Histogram{Counts: []int64{0, 0, 0, int64(age * 2), int64(age * 30), int64(age * 15), int64(age * 3), 0, int64(age)}}, PartsBegun: int64(age * 100), BytesSent: int64(age * 1e6 * float64(i+1))}}
		if wants("devices") {
			for d := range 4 {
				t.Devices = append(t.Devices, &view.Device{Name: fmt.Sprintf("%s/device:GPU:%d", t.Task, d), Type: "GPU", MemoryLimit: 80 << 30, MemoryInUse: int64(d+1) * 10 << 30, MemoryPeak: 60 << 30})
			}
		}
		if wants("sessions") {
			for s := range m.sessions/m.tasks + 1 {
				if i*(m.sessions/m.tasks+1)+s < m.sessions {
					t.Sessions = append(t.Sessions, &view.Session{Name: fmt.Sprintf("%04x%04x", i, s), Who: "client:trainer", Opened: m.began.UnixNano(), Used: now.UnixNano(), Nodes: int64(m.nodes / (1 + i + s)), Plans: 4, Steps: int64(s % 3), StepsDone: int64(age * float64(s))})
				}
			}
		}
		if wants("resources") {
			for r := i; r < m.queues; r += m.tasks {
				full := int64(0)
				if r%11 == 0 {
					full = 1
				}
				name := fmt.Sprintf("queue-%d-%d", i, r/m.tasks)
				t.Resources = append(t.Resources, &view.Resource{Id: "CPU:0//queue/" + name, Device: t.Task + "/device:CPU:0", Kind: "queue", Name: name, Bytes: int64(r) << 10, Queue: &view.Queue{Kind: "FIFOQueueV2",
					Size: (int64(age*3) + int64(r)) % 100, Capacity: 100, Enqueued: int64(age * 30), Dequeued: int64(age * 29), EnqueuesWaiting: full, LastEnqueue: &view.Origin{Step: 7, Session: "00010002", Master: m.task(1), At: now.UnixNano()}}})
			}
		}
		if wants("steps") {
			for s := range 3 {
				t.Steps = append(t.Steps, &view.Step{Id: uint64(1000*i + s + 1), Session: fmt.Sprintf("%04x%04x", i, s), Master: t.Task, Began: now.Add(-time.Duration(s) * 2 * time.Second).UnixNano(), Runs: true, Fetches: []string{"loss:0"},
					Waits: []*view.Wait{{Node: "take", Op: "QueueDequeueV2", Kind: view.Operation, Text: "an element", Since: now.Add(-time.Duration(s) * time.Second).UnixNano()}}})
			}
		}
		if wants("links") {
			for o := range m.tasks {
				if o != i {
					state := "up"
					if (o+i)%17 == 0 {
						state = "down"
					}
					t.Links = append(t.Links, &view.Link{Task: m.task(o), State: state, Since: m.began.UnixNano(), RoundTrip: 200_000, BytesSent: int64(age * 1e6), Queued: int64(o * 1000)})
				}
			}
		}
		if wants("actors") {
			for a := range 200 {
				t.Actors = append(t.Actors, &view.Actor{Name: fmt.Sprint("queue/", a), Kind: "queue", State: "idle", Handled: uint64(age * 100), Since: m.began.UnixNano()})
			}
		}
		if wants("events") {
			last := uint64(age * 3)
			for n := last - min(last, 60); n < last; n++ {
				t.Events = append(t.Events, &view.Event{Number: n + 1, At: m.began.Add(time.Duration(float64(n)/3*1e9) - 100*time.Second).UnixNano(), Kind: "session opened", Subject: "00010002", Text: "client:trainer"})
			}
		}
		c.Tasks = append(c.Tasks, t)
	}
	return c, nil
}

// graph returns a page of a graph of layers, each of which is a scope with nodes and scopes in it.
func (m *made) graph(_ context.Context, q *view.GraphQuery) (*view.Graph, error) {
	const page = 8192
	g := &view.Graph{Known: true, Session: q.Session, Nodes: int64(m.nodes), First: q.First, Ops: []string{"MatMul", "Add", "Relu", "Const", "VariableV2"}}
	for i := range m.tasks {
		g.Devices = append(g.Devices, m.task(i)+"/device:GPU:0")
	}
	for i := q.First; i < min(q.First+page, int64(m.nodes)); i++ {
		random := rand.New(rand.NewPCG(uint64(i), 1))
		layer := i / 250
		n := &view.GraphNode{Name: fmt.Sprintf("model/layer_%d/block_%d/op_%d", layer, i/50%5, i), Op: uint32(i % 5), Device: uint32(layer) % uint32(m.tasks)}
		if i%1000 == 999 {
			n.Name = fmt.Sprintf("const_%d", i)
		}
		for range random.IntN(4) {
			if i > 0 {
				n.Inputs = append(n.Inputs, uint32(max(0, i-1-int64(random.IntN(300)))))
			}
		}
		g.Page = append(g.Page, n)
	}
	return g, nil
}
