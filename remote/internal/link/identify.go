package link

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"net"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/distance"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/trust"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// A process that claims to be a task is authenticated. With certificates (Config.Identify), the caller's certificate names
// the task. Without them, two things prove it:
//
//   - the address (Config.Confirm). The accepting task asks the claimed task's address in the spec whether it is opening
//     this link, with this nonce. A process that cannot be reached there is not the task.
//   - the secret, if the tasks share one. Each end proves that it knows it (package trust).
//
// The streams of tensors that belong to a link carry a random key, which the link's welcome contained. What is proved once need not be proved
// again: a handshake gives both ends a bond (trust.Bond), derived from the secret or, without one, the key. With it, the opener begins the link's
// stream of programs' actors without another handshake, and the acceptor opens its own link to the opener without being asked at its address, and
// without a challenge. Each is admitted once, so a copy of either is of no use.

const (
	nonceSize = 32 // bytes
	keySize   = 16 // bytes, of a link's key
)

// The purposes of a bond.
const (
	forPrograms = "programs" // a stream of programs' actors
	forReturn   = "return"   // a link in the other direction
	forWelcome  = "welcome"  // the key of such a link, which shows that its acceptor has the bond
	forBond     = "bond"     // the bond of such a link
)

func fresh(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

// openings are the links that this task is opening.
type openings struct {
	mu      sync.Mutex
	pending map[string]string // nonces, and the task that each was sent to
}

// add returns a nonce for an attempt to open a link to a task. It is valid until done is called.
func (o *openings) add(task string) (nonce []byte, done func()) {
	nonce = fresh(nonceSize)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pending == nil {
		o.pending = map[string]string{}
	}
	o.pending[string(nonce)] = task
	return nonce, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.pending, string(nonce))
	}
}

func (o *openings) has(nonce []byte, task string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	to, there := o.pending[string(nonce)]
	return there && to == task
}

// confirm answers Confirm: it returns this process's identity if it is opening that link, else NOT_FOUND.
func (l *Links) confirm(_ context.Context, r *wire.ConfirmRequest) (*wire.Identity, error) {
	if r.GetBoot() != l.self.GetBoot() || !l.openings.has(r.GetNonce(), r.GetTask()) {
		return nil, status.Errorf(status.NotFound, "%s is not opening a link to %s", Describe(l.self), r.GetTask())
	}
	return l.self, nil
}

// identify checks that the process that said hello is the task that it claims to be. It sets begun's bond if there is a secret, and its bond and key if
// the link answers one of this side's. Reading from the stream is not bounded here: the caller closes the stream.
func (l *Links) identify(ctx context.Context, begun *hello, out *outbound, hello *wire.Hello, k *link) (err error) {
	if len(hello.GetNonce()) != nonceSize {
		return status.InvalidArgumentf("A hello has a nonce of %d bytes, not %d.", len(hello.GetNonce()), nonceSize)
	}
	if l.config.Identify != nil {
		if err := l.config.Identify(ctx, k.task); err != nil {
			return err
		}
	}
	if bond := k.admits(hello); bond != nil {
		begun.key, begun.bond = bond.Sign(forWelcome, hello.GetNonce()), bond.Sign(forBond, hello.GetNonce())
		return nil
	}
	confirmed := func() error { return l.confirmAt(ctx, hello, k) }
	switch {
	case !l.config.Confirm:
		confirmed = func() error { return nil }
	case l.config.Secret != nil && k.declared:
		// At once, for it takes some round trips. Only the cluster spec says whom a stranger makes this task ask.
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		answer := make(chan error, 1)
		if !l.start(func() { answer <- l.confirmAt(ctx, hello, k) }) {
			return errClosed
		}
		confirmed = func() error { return <-answer }
	}
	if l.config.Secret != nil {
		if begun.bond, err = l.challenge(begun.in, out, hello); err != nil {
			return err
		}
	}
	return confirmed()
}

// confirmAt asks at the address of a task whether the process there has said hello.
func (l *Links) confirmAt(ctx context.Context, hello *wire.Hello, k *link) error {
	from := hello.GetGreeting().GetFrom()
	ctx, cancel := distance.Within(ctx, l.timing.Handshake)
	defer cancel()
	_, err := identify(ctx, l.config.Call, k.task.Address, confirmMethod,
		&wire.ConfirmRequest{Task: l.self.GetTask(), Boot: from.GetBoot(), Nonce: hello.GetNonce()})
	switch {
	case err == nil:
		return nil
	case status.CodeOf(err) == status.NotFound:
		return status.Errorf(status.PermissionDenied, "A process that claims to be %s is not the one at that address: %v", Describe(from), err)
	}
	return status.Errorf(status.Unavailable, "%s could not ask %s whether it opens a link: %s", l.self.GetTask(), Describe(from), explain(err))
}

// returning returns the bond with the process of the task that has opened a link to this side; nil if there is no such link.
func (k *link) returning() trust.Bond {
	way := k.accepted.Load()
	if way == nil {
		return nil
	}
	a := k.links.presence(&wire.Identity{Task: k.task.Name(), Boot: way.boot})
	if a == nil {
		return nil
	}
	return a.bond
}

// admits returns the bond with the process that said hello if this side has opened a link to it, at the task's address, and it shows that it has the
// bond; else nil. It does so for one link at most.
func (k *link) admits(hello *wire.Hello) trust.Bond {
	k.mu.Lock()
	p := k.peer
	k.mu.Unlock()
	if p == nil || p.Boot() != hello.GetGreeting().GetFrom().GetBoot() || !p.bond.Check(forReturn, hello.GetNonce(), hello.GetKey()) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bonded {
		return nil
	}
	p.bonded = true
	return p.bond
}

// owner returns the link that a stream of programs' actors belongs to, which has identified the process that opens both.
func (l *Links) owner(ctx context.Context, hello *wire.Hello) (*accepted, error) {
	from := hello.GetGreeting().GetFrom()
	if err := l.checkCaller(ctx, from); err != nil {
		return nil, err
	}
	a := l.presence(from)
	if a == nil || len(hello.GetNonce()) != nonceSize || !a.bond.Check(forPrograms, hello.GetNonce(), hello.GetKey()) || a.joined.Swap(true) {
		return nil, status.Errorf(status.FailedPrecondition, "%s sends messages to actors without a link to %s", Describe(from), Describe(l.self))
	}
	a.hear()
	return a, nil
}

// challenge proves to the opener of a link that this side knows the secret, makes the opener prove the same, and returns their bond.
func (l *Links) challenge(in *inbound, out *outbound, hello *wire.Hello) (trust.Bond, error) {
	h := &trust.Handshake{Opener: party(hello.GetGreeting().GetFrom()), Acceptor: party(l.self), OpenerNonce: hello.GetNonce(), AcceptorNonce: fresh(nonceSize)}
	m, err := encodeControl(kindChallenge, 0, &wire.Challenge{Identity: l.self, Nonce: h.AcceptorNonce, Proof: l.config.Secret.Prove(trust.Acceptor, h)})
	if err != nil {
		return nil, err
	}
	out.post(m)
	head, body, _, err := in.next()
	if err != nil {
		return nil, err
	}
	answer := &wire.Proof{}
	if head.kind != kindProof || decodeControl(body, answer) != nil {
		return nil, status.InvalidArgumentf("A challenge must be answered with a proof.")
	}
	bond, ok := l.config.Secret.Check(h, answer.GetProof())
	if !ok {
		return nil, status.Errorf(status.Unauthenticated, "%s does not know the secret of %s. Start all tasks with the same --secret-file.", Describe(hello.GetGreeting().GetFrom()), Describe(l.self))
	}
	return bond, nil
}

// answer answers a task's challenge, after checking the task's own proof that it knows the secret. It returns the task's process and the bond with it.
func (k *link) answer(out *outbound, hello *wire.Hello, body []byte) (*wire.Identity, trust.Bond, error) {
	l := k.links
	challenge := &wire.Challenge{}
	if decodeControl(body, challenge) != nil {
		return nil, nil, status.New(status.Unavailable, "it answered a hello with a malformed challenge")
	}
	there := challenge.GetIdentity()
	if err := checkWelcome(l.self, l.config.Spec, k.task, there); err != nil {
		return nil, nil, err
	}
	if l.config.Secret == nil {
		return nil, nil, status.Errorf(status.FailedPrecondition, "%s asks for the cluster's secret, and this server, %s, was started without one. Start all tasks with the same --secret-file.", Describe(there), Describe(l.self))
	}
	h := &trust.Handshake{Opener: party(l.self), Acceptor: party(there), OpenerNonce: hello.GetNonce(), AcceptorNonce: challenge.GetNonce()}
	proof, bond, ok := l.config.Secret.Answer(h, challenge.GetProof())
	if !ok {
		return nil, nil, status.Errorf(status.Unauthenticated, "%s does not know the secret of %s. Start all tasks with the same --secret-file.", Describe(there), Describe(l.self))
	}
	m, err := encodeControl(kindProof, 0, &wire.Proof{Proof: proof})
	if err != nil {
		return nil, nil, err
	}
	out.post(m)
	return there, bond, nil
}

func party(id *wire.Identity) trust.Party {
	return trust.Party{Task: id.GetTask(), Address: id.GetAddress(), Boot: id.GetBoot()}
}

// owns reports whether key is the link's.
func (a *accepted) owns(key []byte) bool { return subtle.ConstantTimeCompare(a.key, key) == 1 }

// isPermanent reports whether an error is permanent, because the processes do not belong together. A retry would fail too.
func isPermanent(err error) bool {
	switch status.CodeOf(err) {
	case status.FailedPrecondition, status.Unauthenticated, status.PermissionDenied:
		return true
	}
	return false
}

// isWrongAddress reports whether an error means that an address is wrong, rather than that no process is there yet: its host name is not
// known, or what listens there is another program. Both may pass, as a name server may lag behind, but seldom do.
func isWrongAddress(err error) bool {
	var name *net.DNSError
	var record tls.RecordHeaderError
	return errors.As(err, &name) && name.IsNotFound || errors.As(err, &record) || http2.IsForeign(err) || status.CodeOf(err) == status.Unimplemented
}

// checkCaller checks the caller of a stream by its certificate, if certificates are used.
func (l *Links) checkCaller(ctx context.Context, from *wire.Identity) error {
	if l.config.Identify == nil {
		return nil
	}
	k := l.link(from.GetTask())
	if k == nil {
		return status.InvalidArgumentf("%q is not another task of the cluster", from.GetTask())
	}
	return l.config.Identify(ctx, k.task)
}
