package link

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/internal/trust"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
)

// stranger opens a stream to b by hand, says hello and returns b's answers up to its refusal or welcome.
func stranger(t *testing.T, b *node, hello *wire.Hello, answer func(*wire.Challenge) []byte) (*wire.Welcome, error) {
	t.Helper()
	return strangeHello(t, b, 0, hello, answer)
}

// strangeStream is stranger for a stream of programs' actors, which gets no welcome.
func strangeStream(t *testing.T, b *node, hello *wire.Hello) (*wire.Welcome, error) {
	t.Helper()
	return strangeHello(t, b, flagPrograms, hello, nil)
}

func strangeHello(t *testing.T, b *node, flags byte, hello *wire.Hello, answer func(*wire.Challenge) []byte) (*wire.Welcome, error) {
	t.Helper()
	s, err := openTest(within(t, patience), b.self.Address, Method)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out := newOutbound(s, &counters{}, b.start)
	in := newInbound(s, tensor.Host, &counters{}, "", "")
	say := func(k kind, flags byte, m proto.Message) {
		o, err := encodeControl(k, flags, m)
		if err != nil {
			t.Fatal(err)
		}
		out.post(o)
	}
	say(kindHello, flags, hello)
	for {
		h, body, _, err := in.next()
		if err != nil {
			return nil, wire.FromGRPC(err)
		}
		if h.kind == kindChallenge {
			c := &wire.Challenge{}
			if err := decodeControl(body, c); err != nil {
				t.Fatal(err)
			}
			say(kindProof, 0, &wire.Proof{Proof: answer(c)})
			continue
		}
		w := &wire.Welcome{}
		if err := decodeControl(body, w); err != nil {
			t.Fatal(err)
		}
		if r := w.GetRefusal(); r != nil {
			return nil, status.New(status.Code(r.Code), r.Message)
		}
		return w, nil
	}
}

// claim returns the hello of a process that claims to be task 0.
func claim(a, b *node, boot uint64) *wire.Hello {
	g := proto.CloneOf(a.greeting(spec.Task{}, 0))
	g.From.Boot, g.Task, g.Address = boot, b.self.Task, b.self.Address
	return &wire.Hello{Greeting: g, Nonce: fresh(nonceSize)}
}

// A process that claims to be a task, but is not the one at the task's address, gets no link. Callers that wait for the
// task are not affected.
func TestStrangersAreNoTasks(t *testing.T) {
	s := testSpec(t, 2)
	a, b := startNode(t, s, 0, ""), startNode(t, s, 1, "")
	lost := watch(b.Links)
	p, err := a.Ensure(within(t, patience), task1)
	if err != nil {
		t.Fatal(err)
	}
	for name, hello := range map[string]*wire.Hello{
		"a made-up boot id":      claim(a, b, 12345),
		"the boot id of a task":  claim(a, b, a.self.Boot),
		"a short nonce":          {Greeting: claim(a, b, a.self.Boot).Greeting, Nonce: []byte("short")},
		"no nonce":               {Greeting: claim(a, b, a.self.Boot).Greeting},
		"the name of the server": claim(b, b, 12345),
	} {
		w, err := stranger(t, b, hello, nil)
		if err == nil {
			t.Errorf("%s: a stranger was let in, as %v", name, w)
			continue
		}
		switch status.CodeOf(err) {
		case status.PermissionDenied, status.InvalidArgument, status.FailedPrecondition:
		default:
			t.Errorf("%s: %v: %v", name, status.CodeOf(err), err)
		}
	}
	select {
	case what := <-lost:
		t.Errorf("a task was lost through a stranger: %s", what)
	default:
	}
	if p.Err() != nil {
		t.Error(p.Err())
	}
}

// If no process answers at a task's address, no process can claim to be the task.
func TestNobodyVouchesForAnAbsentTask(t *testing.T) {
	s := testSpec(t, 2)
	a, b := startNode(t, s, 0, ""), startNode(t, s, 1, "")
	hello := claim(a, b, a.self.Boot)
	a.stop()
	_, err := stranger(t, b, hello, nil)
	wantError(t, err, status.Unavailable, task0, "could not ask")
}

// secretFile makes a file of secrets.
func secretFile(t *testing.T, secrets ...string) *trust.Secret {
	t.Helper()
	var text strings.Builder
	for _, s := range secrets {
		text.WriteString(base64.StdEncoding.EncodeToString([]byte(strings.Repeat(s, 16))) + "\n")
	}
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	secret, err := trust.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func knowing(s *trust.Secret) option { return func(c *Config) { c.Secret = s } }

// Tasks that share a secret reach each other, even while one of them has a newer one first. All others get an error that
// says what is wrong.
func TestSecrets(t *testing.T) {
	for name, c := range map[string]struct {
		a, b *trust.Secret
		code status.Code
	}{
		"none":             {nil, nil, status.OK},
		"the same":         {secretFile(t, "x"), secretFile(t, "x"), status.OK},
		"different":        {secretFile(t, "x"), secretFile(t, "y"), status.Unauthenticated},
		"here alone":       {secretFile(t, "x"), nil, status.Unauthenticated},
		"there alone":      {nil, secretFile(t, "x"), status.FailedPrecondition},
		"newer here":       {secretFile(t, "y", "x"), secretFile(t, "x", "y"), status.OK},
		"newer there":      {secretFile(t, "x"), secretFile(t, "y", "x"), status.Unauthenticated},
		"newer is last":    {secretFile(t, "x"), secretFile(t, "x", "y"), status.OK},
		"older is no more": {secretFile(t, "x"), secretFile(t, "y"), status.Unauthenticated},
	} {
		t.Run(name, func(t *testing.T) {
			s := testSpec(t, 2)
			a, b := startNode(t, s, 0, "", knowing(c.a)), startNode(t, s, 1, "", knowing(c.b))
			p, err := a.Ensure(within(t, patience), task1)
			if c.code != status.OK {
				wantError(t, err, c.code, "--secret-file")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Push(1, nil, make([]byte, 10), nil); err != nil || p.Boot() != b.self.Boot {
				t.Error(err)
			}
		})
	}
}

// A process that can answer at a task's address still needs the secret, and cannot reuse what it has seen of one
// handshake in another.
func TestProofsAreFresh(t *testing.T) {
	s := testSpec(t, 2)
	secret := secretFile(t, "x")
	b := startNode(t, s, 1, "", knowing(secret))
	a := startNode(t, s, 0, "") // an impostor at the address: it confirms what it is asked
	var seen []byte
	hello := claim(a, b, a.self.Boot)
	a.openings.mu.Lock()
	a.openings.pending = map[string]string{string(hello.Nonce): task1}
	a.openings.mu.Unlock()
	// A process that knows the secret is admitted, so the test depends on the proofs.
	_, err := stranger(t, b, hello, func(c *wire.Challenge) []byte {
		h := &trust.Handshake{Opener: party(hello.Greeting.From), Acceptor: party(c.Identity), OpenerNonce: hello.Nonce, AcceptorNonce: c.Nonce}
		answer, _, ok := secret.Answer(h, c.Proof)
		if !ok {
			t.Fatal("the acceptor's proof does not fit")
		}
		seen = answer
		return answer
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, answer := range map[string]func(*wire.Challenge) []byte{
		"the proof of before": func(*wire.Challenge) []byte { return seen },
		"the acceptor's own":  func(c *wire.Challenge) []byte { return c.Proof },
		"nothing":             func(*wire.Challenge) []byte { return nil },
	} {
		if _, err := stranger(t, b, hello, answer); status.CodeOf(err) != status.Unauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// With certificates, only they authenticate a link and its stream of tensors.
func TestCertificatesCount(t *testing.T) {
	s := testSpec(t, 2)
	refuse := func(c *Config) {
		c.Identify = func(_ context.Context, task spec.Task) error {
			return status.Errorf(status.PermissionDenied, "the certificate is not that of %v", task)
		}
	}
	a := startNode(t, s, 0, "")
	startNode(t, s, 1, "", refuse)
	_, err := a.Ensure(within(t, patience), task1)
	wantError(t, err, status.PermissionDenied, "the certificate is not that of")
}
