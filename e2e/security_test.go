//go:build unix

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// TestSecuredCluster has the command make and use certificates, a secret and a policy. TensorFlow's client connects through a proxy and
// does what its rule allows; other requests are refused with the rule. Clients without credentials are refused.
func TestSecuredCluster(t *testing.T) {
	t.Parallel()
	needPython(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	c := secured(t, dir)
	worker := c.task("worker", 0)
	got := program(t, drivers.borrow(t), "secured.py", launchProxy(t, worker.addr, c.shows), at("policy.yaml"))
	answer, rest, _ := strings.Cut(got, "; ")
	expect(t, "a variable of the other task", answer, "42.0")
	profiled, refused, _ := strings.Cut(rest, "; ")
	expect(t, "TensorFlow's profiler", profiled, "2 tasks traced, 2 monitored")
	for _, want := range []string{`may not use the op MatrixInverse: denied by "MatrixInverse" at policy.yaml:4`, "ReadFile", "client:alice"} {
		if !strings.Contains(refused, want) {
			t.Errorf("the refusals %q do not say %q", refused, want)
		}
	}

	// A client without a certificate only receives a line that says what to do.
	out, err := exec.Command(binary(t), "devices", worker.addr).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "troupe proxy") {
		t.Errorf("without a certificate: %v, %s", err, out)
	}
	audit, err := os.ReadFile(at("worker.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"event":"open","who":"client:alice","by":"certificate"`, `"code":"PERMISSION_DENIED"`} {
		if !strings.Contains(string(audit), want) {
			t.Errorf("the audit log has no %s:\n%s", want, audit)
		}
	}
}

// secured starts a cluster of a ps and a worker with certificates, a secret and a policy, which are in dir. Alice may use it.
func secured(t testing.TB, dir string) *cluster {
	t.Helper()
	at := func(name string) string { return filepath.Join(dir, name) }
	command := func(args ...string) {
		t.Helper()
		cmd := exec.Command(binary(t), args...)
		cmd.WaitDelay = time.Second
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("troupe %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	c := declare(t, "ps=1,worker=1")
	command("certs", "init", "--cluster", c.spec, "--out", at("certs"), "--client", "alice")
	command("secret", "new", at("secret"))
	rules := "rules:\n  - who: client:alice\n    may: [open, list, reset]\n    ops: {deny: [MatrixInverse]}\n"
	if err := os.WriteFile(at("policy.yaml"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	identity := func(name string) []string {
		return []string{"--tls-cert", at("certs/" + name + ".pem"), "--tls-key", at("certs/" + name + "-key.pem"), "--tls-ca", at("certs/ca.pem")}
	}
	for _, k := range c.tasks {
		k.flags = append(identity(fmt.Sprintf("%s-%d", k.job, k.index)), "--secret-file", at("secret"), "--policy", at("policy.yaml"), "--audit-log", at(k.job+".jsonl"))
	}
	c.shows = identity("client-alice")
	c.isReady = func(t testing.TB) {
		t.Helper()
		waitSecured(t, c.task("worker", 0).target(), access.CredentialFiles{Cert: at("certs/client-alice.pem"), Key: at("certs/client-alice-key.pem"), CA: at("certs/ca.pem")})
	}
	c.startAll(t)
	return c
}

// waitSecured waits until a task knows that all tasks of its cluster are up.
func waitSecured(t testing.TB, target string, files access.CredentialFiles) {
	t.Helper()
	credentials, err := access.LoadCredentials(access.CredentialConfig{CredentialFiles: files})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(credentials.Close)
	alice, err := client.Dial(t.Context(), target, client.WithCredentials(credentials))
	if err != nil {
		t.Fatal(err)
	}
	defer alice.Close(t.Context())
	eventually(t, 20*time.Second, "the secured cluster", func() error {
		s, err := alice.Status(t.Context())
		if err != nil {
			return err
		}
		for _, k := range s.Tasks {
			if k.State != "up" {
				return fmt.Errorf("%s is %s: %s", k.Task, k.State, k.Reason)
			}
		}
		return nil
	})
}

// launchProxy runs troupe proxy for a task, with flags for its identity, and returns its target for clients.
func launchProxy(t testing.TB, task string, identity []string) (target string) {
	t.Helper()
	listen := spectest.Address(t)
	proxied, err := launch("proxy", exec.Command(binary(t), append([]string{"proxy", "--listen", listen, "--target", task}, identity...)...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxied.terminate(); err != nil {
			t.Error(err)
		}
	})
	eventually(t, 10*time.Second, "the proxy", func() error { return exec.Command(binary(t), "status", listen).Run() })
	return "grpc://" + listen
}
