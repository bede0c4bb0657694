package member

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/port"
	"github.com/troupe-run/troupe/remote/internal/trust"
	"github.com/troupe-run/troupe/remote/spec"
)

// Which process may be a task. With certificates, a task's certificate names it, and any other is refused on every stream. Without them,
// the address in the spec identifies a task, and so does the secret, if the tasks share one.

// loadSecret reads the secret. TLS does not encrypt gossip's packets, so with certificates a cluster of several tasks needs a secret as
// well.
func (m *Member) loadSecret() (err error) {
	if m.config.SecretFile == "" {
		if m.config.Credentials != nil && len(m.spec.Tasks()) > 1 {
			return status.InvalidArgumentf("With certificates, a cluster of several tasks also needs a secret, which encrypts the gossip's packets: `troupe secret new FILE` makes one; give all tasks --secret-file (WithSecretFile)")
		}
		return nil
	}
	m.secret, err = trust.Load(m.config.SecretFile)
	return err
}

// ReloadSecret reads the secret again. Links and gossip that begin afterwards need the new one. After an error, the previous one stays in
// use.
func (m *Member) ReloadSecret() error {
	if m.secret == nil {
		return nil
	}
	if err := m.secret.Reload(); err != nil {
		return err
	}
	if g := m.gossiping.Load(); g != nil {
		return g.Rekey(m.secret.Gossip())
	}
	return nil
}

// Secret returns the secret that the cluster's tasks share; nil if there is none.
func (m *Member) Secret() *trust.Secret { return m.secret }

func (m *Member) gossipKeys() [][]byte {
	if m.secret == nil {
		return nil
	}
	return m.secret.Gossip()
}

// Exposed returns a warning that whoever reaches the task's address may use it. It is empty if only programs of this machine reach it, if
// callers are identified, or if the owner has accepted it.
func (m *Member) Exposed() string {
	at, ok := m.port.Packets().LocalAddr().(*net.UDPAddr)
	if !ok || at.IP.IsLoopback() || m.config.Private || m.config.Guest || m.config.Insecure || m.config.Credentials != nil || m.config.Guard != nil {
		return ""
	}
	return fmt.Sprintf("%s listens beyond the loopback interface without certificates, tokens or a policy: whoever reaches it may run any graph on it. docs/security.md tells how to change that; --insecure says that it is meant so",
		m.self.Address)
}

// identify returns the function that checks the certificate of a stream's caller; nil without certificates.
func (m *Member) identify() func(ctx context.Context, task spec.Task) error {
	if m.config.Credentials == nil {
		return nil
	}
	return func(ctx context.Context, task spec.Task) error {
		cert, name, err := Certified(ctx)
		switch {
		case err != nil:
			return err
		case name.Job() == "", !m.config.Guest && !name.IsTask(task.Job, task.Index):
			return status.Errorf(status.PermissionDenied, "The certificate of %s does not let its owner be %v.", name, task)
		case m.config.Guest:
			return nil
		}
		// Nobody could reach the task there, and a holder from elsewhere should not be the task.
		host, _, err := spec.SplitAddress(task.Address)
		if err == nil {
			err = cert.VerifyHostname(host)
		}
		if err != nil {
			return status.Errorf(status.PermissionDenied, "The certificate of %s does not let its owner be %v: %v", name, task, err)
		}
		return nil
	}
}

// Certified returns the certificate of the caller in ctx, and the name in it.
func Certified(ctx context.Context) (*x509.Certificate, access.Name, error) {
	p, _ := http2.PeerOf(ctx)
	if p.TLS == nil || len(p.TLS.PeerCertificates) == 0 {
		return nil, access.Name{}, status.Errorf(status.Unauthenticated, "The caller has no certificate.")
	}
	cert := p.TLS.PeerCertificates[0]
	name, err := access.NameOf(cert)
	return cert, name, err
}

// confirms reports whether to ask a task's address whether it opens a link: always, except where its certificate names it.
func (m *Member) confirms() bool { return m.config.Credentials == nil || m.config.Guest }

// strangers reports whether a task may join the cluster although no task of the cluster spec knows it: either its certificate or the secret
// proves it, or everybody who reaches the port has the same rights anyway.
func (m *Member) strangers() bool {
	return !m.config.Guest && (m.config.Credentials != nil || m.secret != nil || m.config.Guard == nil)
}

// Proves reports whether servers prove that they have the same owner, by certificates or the secret.
func (m *Member) Proves() bool { return m.config.Credentials != nil || m.secret != nil }

// taskCredentials are credentials as the port of a task uses them: the process at a declared task's address must be that task.
type taskCredentials struct {
	*access.Credentials
	tasks map[string]spec.Task // by address
	// learned returns the task at an address if the cluster spec does not have it.
	learned func(address string) (spec.Task, bool)
}

var _ port.Credentials = (*taskCredentials)(nil)

// credentials returns those of the member's port; nil without any.
func (m *Member) credentials() port.Credentials {
	if m.config.Credentials == nil {
		return nil // not a nil *taskCredentials
	}
	c := &taskCredentials{Credentials: m.config.Credentials, tasks: map[string]spec.Task{}}
	if !m.config.Guest {
		for _, t := range m.spec.Tasks() {
			c.tasks[t.Address] = t
		}
		c.learned = func(address string) (t spec.Task, ok bool) {
			if l := m.linked.Load(); l != nil {
				t, ok = l.TaskAt(address)
			}
			return t, ok
		}
	}
	return c
}

// CallWith returns credentials for calls to addresses whose tasks are not known; nil for none.
func CallWith(c *access.Credentials) port.Credentials {
	if c == nil {
		return nil // not a nil *taskCredentials
	}
	return &taskCredentials{Credentials: c}
}

// Client returns the configuration of a connection to an address.
func (c *taskCredentials) Client(address string, protocols ...string) *tls.Config {
	t, ok := c.tasks[address]
	if !ok && c.learned != nil {
		t, ok = c.learned(address)
	}
	if ok {
		return c.ClientOf(t.Job, t.Index, protocols...)
	}
	return c.Credentials.Client(protocols...)
}

// Gossips returns why a caller may not gossip: only tasks may.
func (c *taskCredentials) Gossips(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return status.Errorf(status.Unauthenticated, "The caller has no certificate.")
	}
	name, err := access.NameOf(state.PeerCertificates[0])
	if err == nil && name.Job() == "" {
		err = status.Errorf(status.PermissionDenied, "The certificate of %s is not a task's.", name)
	}
	return err
}
