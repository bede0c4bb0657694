package ui_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// browser is a headless Chromium that the test controls with the DevTools protocol over pipes.
type browser struct {
	t   testing.TB
	in  io.Writer
	mu  sync.Mutex // guards what follows
	ids int
	// waiting are the calls without an answer yet, and pages those that receive events, by session.
	waiting map[int]chan message
	pages   map[string]*page
	ended   error
}

// message is a message of the DevTools protocol.
type message struct {
	ID        int             `json:"id,omitempty"`
	Method    string          `json:"method,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Params    any             `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// chromium returns the browser. Without one, the test is skipped, except in continuous integration, which installs it.
func chromium(t testing.TB) string {
	for _, name := range []string{os.Getenv("TROUPE_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("there is no Chromium: install it, or name it in TROUPE_CHROMIUM")
	}
	t.Skip("there is no Chromium to open the pages with: install it (Debian: apt-get install chromium), or name it in TROUPE_CHROMIUM")
	return ""
}

// startBrowser starts a browser with additional flags; it ends with the test.
func startBrowser(t testing.TB, flags ...string) *browser {
	t.Helper()
	path := chromium(t)
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir=" + t.TempDir()}, append(flags, "about:blank")...)...)
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4, as Chromium expects
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirIn.Close()
	_ = theirOut.Close()
	b := &browser{t: t, in: in, waiting: map[int]chan message{}, pages: map[string]*page{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b.read(out)
	}()
	t.Cleanup(func() {
		b.call(&page{b: b, t: t}, "Browser.close", nil, nil) // it then writes its profile, and the folder can be removed
		<-read
		_ = in.Close()
		_ = cmd.Wait() // any exit status is fine
		cancel()
		_ = out.Close()
		if t.Failed() {
			t.Logf("the browser said: %.2000s", said.String())
		}
	})
	return b
}

// read dispatches the browser's messages until it ends.
func (b *browser) read(from io.Reader) {
	r := bufio.NewReaderSize(from, 1<<20)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			b.ended = fmt.Errorf("the browser has ended: %w", err)
			for _, w := range b.waiting {
				close(w)
			}
			b.waiting = map[int]chan message{}
			b.mu.Unlock()
			return
		}
		var m struct {
			message
			Params json.RawMessage `json:"params"`
		}
		if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
			continue // an event that the test does not know
		}
		b.mu.Lock()
		waiting, page := b.waiting[m.ID], b.pages[m.SessionID]
		delete(b.waiting, m.ID)
		b.mu.Unlock()
		if waiting != nil {
			waiting <- m.message
		} else if page != nil {
			page.hear(m.Method, m.Params)
		}
	}
}

// try calls a method of the browser or of a page.
func (b *browser) try(session, method string, params, result any) error {
	b.mu.Lock()
	if b.ended != nil {
		b.mu.Unlock()
		return b.ended
	}
	b.ids++
	id, answer := b.ids, make(chan message, 1)
	b.waiting[id] = answer
	text, err := json.Marshal(message{ID: id, Method: method, SessionID: session, Params: params})
	if err == nil {
		_, err = b.in.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return b.ended
		case m.Error != nil:
			return errors.New(m.Error.Message)
		case result != nil:
			return json.Unmarshal(m.Result, result)
		}
		return nil
	case <-time.After(3 * time.Minute):
		return fmt.Errorf("%s was not answered within 3 minutes", method)
	}
}

func (b *browser) call(p *page, method string, params, result any) {
	p.t.Helper()
	if err := b.try(p.session, method, params, result); err != nil && method != "Browser.close" {
		p.t.Fatalf("%s: %v", method, err)
	}
}

// page is a tab of the browser. It collects its errors.
type page struct {
	b       *browser
	t       testing.TB
	session string
	mu      sync.Mutex
	wrong   []string
}

type object = map[string]any

// open opens a tab of the given size.
func (b *browser) open(t testing.TB, width, height int) *page {
	t.Helper()
	p := &page{b: b, t: t}
	var target struct {
		TargetID string `json:"targetId"`
	}
	b.call(p, "Target.createTarget", object{"url": "about:blank"}, &target)
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	b.call(p, "Target.attachToTarget", object{"targetId": target.TargetID, "flatten": true}, &attached)
	p.session = attached.SessionID
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()
	for _, method := range []string{"Page.enable", "Runtime.enable", "Log.enable"} {
		b.call(p, method, nil, nil)
	}
	b.call(p, "Emulation.setDeviceMetricsOverride", object{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	t.Cleanup(func() { _ = b.try("", "Target.closeTarget", object{"targetId": target.TargetID}, nil) })
	return p
}

// hear records errors of the console and of the browser, such as what the page's policy blocks.
func (p *page) hear(method string, params json.RawMessage) {
	var e struct {
		Type string `json:"type"`
		Args []struct {
			Value       any    `json:"value"`
			Description string `json:"description"`
		} `json:"args"`
		ExceptionDetails struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
		Entry struct {
			Level, Text, URL string
		} `json:"entry"`
	}
	if err := json.Unmarshal(params, &e); err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case method == "Runtime.exceptionThrown":
		p.wrong = append(p.wrong, e.ExceptionDetails.Text+" "+e.ExceptionDetails.Exception.Description)
	case method == "Runtime.consoleAPICalled" && (e.Type == "error" || e.Type == "warning" || e.Type == "assert"):
		p.wrong = append(p.wrong, fmt.Sprintf("console.%s: %v", e.Type, e.Args))
	case method == "Log.entryAdded" && (e.Entry.Level == "error" || e.Entry.Level == "warning"):
		p.wrong = append(p.wrong, e.Entry.Level+": "+e.Entry.Text+" "+e.Entry.URL)
	}
}

// errors returns the page's errors so far.
func (p *page) errors() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.wrong)
}

func (p *page) goTo(address string) {
	p.t.Helper()
	p.b.call(p, "Page.navigate", object{"url": address}, nil)
}

// eval evaluates an expression in the page, awaits it if it is a promise, and decodes its value.
func (p *page) eval(expression string, value any) {
	p.t.Helper()
	var out struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		ExceptionDetails *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	p.b.call(p, "Runtime.evaluate", object{"expression": expression, "awaitPromise": true, "returnByValue": true}, &out)
	if e := out.ExceptionDetails; e != nil {
		p.t.Fatalf("%.300s: %s %s", expression, e.Text, e.Exception.Description)
	}
	if value != nil {
		if err := json.Unmarshal(out.Result.Value, value); err != nil {
			p.t.Fatalf("%.300s gave %s: %v", expression, out.Result.Value, err)
		}
	}
}

// until waits for a condition in the page, for a minute.
func (p *page) until(what, condition string) {
	p.t.Helper()
	var ok bool
	p.eval(fmt.Sprintf(`new Promise((resolve) => {
		const end = performance.now() + 60000;
		const look = () => {
			let is = false;
			try { is = Boolean(%s); } catch { is = false; }
			if (is || performance.now() > end) resolve(is);
			else setTimeout(look, 30);
		};
		look();
	})`, condition), &ok)
	if !ok {
		var shown string
		p.eval(`document.body?.innerText ?? ""`, &shown)
		p.t.Fatalf("the page does not show within a minute: %s. It shows:\n%.3000s\nerrors: %v", what, shown, p.errors())
	}
}

// shows waits until the page's main part has all of the texts.
func (p *page) shows(texts ...string) {
	p.t.Helper()
	quoted, err := json.Marshal(texts)
	if err != nil {
		p.t.Fatal(err)
	}
	p.until(strings.Join(texts, ", "), fmt.Sprintf(`((all) => %s.every((t) => all.includes(t)))(document.getElementById("main").innerText)`, quoted))
}

// keyCodes are the codes of keys that the browser itself handles.
var keyCodes = map[string]int{"Tab": 9, "Enter": 13, "Escape": 27}

// press presses a key and releases it.
func (p *page) press(key string) {
	p.t.Helper()
	text := ""
	switch {
	case len(key) == 1:
		text = key
	case key == "Enter":
		text = "\r"
	}
	p.b.call(p, "Input.dispatchKeyEvent", object{"type": "keyDown", "key": key, "code": key, "text": text, "windowsVirtualKeyCode": keyCodes[key]}, nil)
	p.b.call(p, "Input.dispatchKeyEvent", object{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": keyCodes[key]}, nil)
}

// picture writes a screenshot.
func (p *page) picture(path string) {
	p.t.Helper()
	var shot struct {
		Data string `json:"data"`
	}
	p.b.call(p, "Page.captureScreenshot", object{"format": "png", "optimizeForSpeed": false}, &shot)
	b, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// accessible runs axe's rules on the page and reports violations.
func (p *page) accessible(axe string) {
	p.t.Helper()
	p.eval(`globalThis.axe ? true : (() => { `+axe+`; return true; })()`, nil)
	var violations []struct {
		ID, Help string
		Nodes    []struct {
			HTML           string `json:"html"`
			FailureSummary string `json:"failureSummary"`
		} `json:"nodes"`
	}
	p.eval(`axe.run(document, { resultTypes: ["violations"] }).then((r) => r.violations.map((v) => ({ id: v.id, help: v.help, nodes: v.nodes.slice(0, 3).map((n) => ({ html: n.html, failureSummary: n.failureSummary })) })))`, &violations)
	for _, v := range violations {
		p.t.Errorf("axe: %s (%s): %+v", v.ID, v.Help, v.Nodes)
	}
}

// sortedKeys returns a map's keys in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
