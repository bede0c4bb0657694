package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// TestDashboardActs checks that the dashboard of one task cancels a step of another and empties a container for callers whose token and
// policy allow it. Refusals name the rule, and the audit log has all of it.
func TestDashboardActs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	tokens, lines := map[string]string{}, ""
	for _, who := range []string{"viewer", "operator", "trainer"} {
		token, line, err := access.NewToken(who, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		tokens[who], lines = token, lines+line+"\n"
	}
	for name, text := range map[string]string{"tokens": lines,
		"policy.yaml": "rules:\n  - {who: client:viewer, may: list}\n  - {who: client:operator, may: [list, cancel, reset], containers: [box]}\n  - {who: client:trainer, may: open}\n"} {
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := declare(t, "ps=1,worker=1", "--tokens", at("tokens"), "--policy", at("policy.yaml"))
	t.Cleanup(func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
		c.attachLogs(t)
	})
	endpoint := spectest.Address(t)
	c.task("ps", 0).flags = []string{"--http", endpoint, "--audit-log", at("audit.jsonl")}
	for _, k := range c.tasks {
		c.start(t, k)
	}
	// ask queries the endpoint, or posts a body if there is one.
	ask := func(who, path, body string) (code int, answer string, err error) {
		method := http.MethodGet
		if body != "" {
			method = http.MethodPost
		}
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+endpoint+path, strings.NewReader(body))
		if err != nil {
			return 0, "", err
		}
		r.Header.Set("Content-Type", "application/json")
		if who != "" {
			r.Header.Set("Authorization", "Bearer "+tokens[who])
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, "", err
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		return a.StatusCode, string(text), err
	}
	wants := func(who, path, body string, code int, text string) {
		t.Helper()
		got, answer, err := ask(who, path, body)
		if err != nil || got != code || !strings.Contains(answer, text) {
			t.Errorf("%s%s as %q: %d %s (%v), want %d, %q", path, body, who, got, answer, err, code, text)
		}
	}
	eventually(t, 20*time.Second, "the cluster", func() error {
		code, answer, err := ask("viewer", "/readyz?cluster", "")
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("%d %s", code, answer)
		}
		return err
	})

	// A step of the worker waits for an element of the ps.
	s := op.NewScope()
	take := op.NewFIFOQueue(s.WithDevice("/job:ps/task:0"), []tensor.DType{tensor.Float32}).Dequeue(s.WithName("take"))[0]
	def, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	trainer, err := troupe.Dial(t.Context(), c.task("worker", 0).target(), client.WithToken(tokens["trainer"]))
	if err != nil {
		t.Fatal(err)
	}
	defer trainer.Close(context.Background())
	session, err := trainer.NewSession(t.Context(), def, nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { // ends with the step or the test's context
		_, err := session.Eval(t.Context(), nil, take)
		ended <- err
	}()
	var step uint64
	eventually(t, 20*time.Second, "the step", func() error {
		_, answer, err := ask("operator", "/ui/api/see?sections=steps", "")
		if err != nil {
			return err
		}
		var seen struct {
			Tasks []struct {
				Steps []struct{ ID uint64 }
			}
		}
		if err := json.Unmarshal([]byte(answer), &seen); err != nil {
			return fmt.Errorf("%s: %w", answer, err)
		}
		for _, k := range seen.Tasks {
			for _, s := range k.Steps {
				step = s.ID
			}
		}
		if step == 0 {
			return fmt.Errorf("no step runs: %s", answer)
		}
		return nil
	})

	cancel, reset := fmt.Sprintf(`{"step":%d}`, step), `{"containers":["box"]}`
	wants("viewer", "/ui/api/about", "", 200, `"cancel":false,"reset":false`)
	wants("operator", "/ui/api/about", "", 200, `"cancel":true,"reset":true`)
	for path, body := range map[string]string{"/ui/api/cancel": cancel, "/ui/api/reset": reset} {
		wants("", path, body, 403, "loopback may not")
		wants("viewer", path, body, 403, "client:viewer may not")
	}
	wants("operator", "/ui/api/reset", `{"containers":[]}`, 403, "client:operator may not use the default container: the rule at policy.yaml:3")
	wants("operator", "/ui/api/reset", reset, 200, "{}")
	select {
	case err := <-ended:
		t.Fatalf("the step ended before it was cancelled: %v", err)
	default:
	}
	wants("operator", "/ui/api/cancel", cancel, 200, `"master":"/job:worker/replica:0/task:0"`)
	select {
	case err := <-ended:
		if status.CodeOf(err) != status.Cancelled || !strings.Contains(err.Error(), "client:operator at 127.0.0.1:") {
			t.Errorf("the step ended with %v", err)
		}
	case <-time.After(extent.Slack(20 * time.Second)):
		t.Fatal("the step did not end")
	}
	wants("operator", "/ui/api/cancel", cancel, 404, "it has ended")
	audit, err := os.ReadFile(at("audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"event":"cancel","who":"client:operator","by":"token"`, `"event":"reset","who":"client:operator","by":"token"`, `"event":"cancel","who":"client:viewer"`, `"event":"reset","who":"loopback"`} {
		if !strings.Contains(string(audit), want) {
			t.Errorf("the audit log has no %s:\n%s", want, audit)
		}
	}
}
