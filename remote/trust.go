package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"net"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/port"
	"github.com/troupe-run/troupe/remote/internal/trust"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
)

// Who may be a task. With certificates, a task's names it, and another one is refused on every stream. Without them the
// address that the spec gives a task tells who it is, and the secret, if the tasks share one.

// loadSecret reads the secret. The gossip's packets are not encrypted by TLS, so that certificates do without a
// secret only where there is no gossip.
func (n *Node) loadSecret() (err error) {
	if n.config.SecretFile == "" {
		if n.config.Credentials != nil && len(n.spec.Tasks()) > 1 {
			return status.InvalidArgumentf("With certificates, a cluster of several tasks also needs a secret, which encrypts the gossip's packets: `troupe secret new FILE` makes one; give all tasks --secret-file (WithSecretFile)")
		}
		return nil
	}
	n.secret, err = trust.Load(n.config.SecretFile)
	return err
}

// ReloadSecret reads the secret again; links and gossip that begin from then on need it. After an error the one of
// before holds.
func (n *Node) ReloadSecret() error {
	if n.secret == nil {
		return nil
	}
	if err := n.secret.Reload(); err != nil {
		return err
	}
	if g := n.gossiping.Load(); g != nil {
		return g.Rekey(n.secret.Gossip())
	}
	return nil
}

func (n *Node) gossipKeys() [][]byte {
	if n.secret == nil {
		return nil
	}
	return n.secret.Gossip()
}

// exposed tells that whoever reaches the node's address may use it; empty if nobody but programs of this machine does,
// something tells who they are, or the owner wants it so.
func (n *Node) exposed() string {
	at, ok := n.port.Packets().LocalAddr().(*net.UDPAddr)
	if !ok || at.IP.IsLoopback() || n.guest() || n.config.Files.Insecure || n.config.Credentials != nil || n.config.Guard != nil {
		return ""
	}
	return fmt.Sprintf("%s listens beyond the loopback interface without certificates, tokens or a policy: whoever reaches it may run any graph on it. docs/security.md tells how to change that; --insecure says that it is meant so",
		n.self.Address)
}

// guest tells whether the node is a task of a cluster that a client has declared. Certificates name the tasks of the
// servers' own clusters, not of that one.
func (n *Node) guest() bool { return n.config.lent != nil }

// identify makes what checks the certificate of a stream's caller; nil without certificates.
func (n *Node) identify() func(ctx context.Context, task spec.Task) error {
	if n.config.Credentials == nil {
		return nil
	}
	return func(ctx context.Context, task spec.Task) error {
		cert, name, err := certified(ctx)
		switch {
		case err != nil:
			return err
		case name.Job() == "", !n.guest() && !name.IsTask(task.Job, task.Index):
			return status.Errorf(status.PermissionDenied, "The certificate of %s does not let its owner be %v.", name, task)
		case n.guest():
			return nil
		}
		// Nobody could reach it there, and whoever has it from elsewhere should not be the task.
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

// certified is the certificate of the caller whose context ctx is, and the name in it.
func certified(ctx context.Context) (*x509.Certificate, access.Name, error) {
	p, _ := http2.PeerOf(ctx)
	if p.TLS == nil || len(p.TLS.PeerCertificates) == 0 {
		return nil, access.Name{}, status.Errorf(status.Unauthenticated, "The caller has no certificate.")
	}
	cert := p.TLS.PeerCertificates[0]
	name, err := access.NameOf(cert)
	return cert, name, err
}

// confirms tells whether a task's address is asked whether it opens a link: always, but where its certificate names it.
func (n *Node) confirms() bool { return n.config.Credentials == nil || n.guest() }

// admitMaster refuses a master that does not show that it is a server of the same owner.
func (n *Node) admitMaster(ctx context.Context, q *wire.LendRequest) error {
	if n.config.Credentials != nil {
		_, name, err := certified(ctx)
		if err != nil {
			return err
		}
		if name.Job() == "" {
			return status.Errorf(status.PermissionDenied, "The certificate of %s is not a server's: it may not make this server a task of a cluster.", name)
		}
	}
	if n.secret != nil && !n.secret.CheckGuest(q.GetProof(), lendParts(q)...) {
		return status.Errorf(status.Unauthenticated, "The master %s does not know the secret of %s. Start all servers with the same --secret-file.", q.GetMaster(), n.self.Name())
	}
	return nil
}

// lendParts is what a request to be part of a declared cluster says.
func lendParts(q *wire.LendRequest) [][]byte {
	return [][]byte{binary.BigEndian.AppendUint64(nil, q.GetCluster()), []byte(q.GetSpec()), []byte(q.GetTask()),
		[]byte(q.GetMaster()), binary.BigEndian.AppendUint64(nil, q.GetBoot())}
}

// taskCredentials are credentials as the port of a task uses them: whoever is at the address of a declared task has to
// be that task.
type taskCredentials struct {
	*access.Credentials
	tasks map[string]spec.Task // by address
}

var _ port.Credentials = (*taskCredentials)(nil)

// credentials are those of the node's port; nil without any.
func (n *Node) credentials() port.Credentials {
	if n.config.Credentials == nil {
		return nil // not a nil *taskCredentials
	}
	c := &taskCredentials{Credentials: n.config.Credentials, tasks: map[string]spec.Task{}}
	if !n.guest() {
		for _, t := range n.spec.Tasks() {
			c.tasks[t.Address] = t
		}
	}
	return c
}

// Client is the configuration of a connection to an address.
func (c *taskCredentials) Client(address string, protocols ...string) *tls.Config {
	if t, ok := c.tasks[address]; ok {
		return c.ClientOf(t.Job, t.Index, protocols...)
	}
	return c.Credentials.Client(protocols...)
}

// Gossips tells why a caller may not gossip: only tasks do.
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
