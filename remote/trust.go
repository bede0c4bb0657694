package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"net"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/gateway"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/port"
	"github.com/troupe-run/troupe/remote/internal/trust"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
)

// Which process may be a task. With certificates, a task's certificate names it, and any other is refused on every stream. Without them,
// the address in the spec identifies a task, and so does the secret, if the tasks share one.

// loadSecret reads the secret. TLS does not encrypt gossip's packets, so with certificates a cluster of several tasks needs a secret as
// well.
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

// ReloadSecret reads the secret again. Links and gossip that begin afterwards need the new one. After an error, the previous one stays in
// use.
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

// exposed returns a warning that whoever reaches the node's address may use it. It is empty if only programs of this machine reach it, if
// callers are identified, or if the owner has accepted it.
func (n *Node) exposed() string {
	at, ok := n.port.Packets().LocalAddr().(*net.UDPAddr)
	if !ok || at.IP.IsLoopback() || n.config.Private || n.guest() || n.config.Files.Insecure || n.config.Credentials != nil || n.config.Guard != nil {
		return ""
	}
	return fmt.Sprintf("%s listens beyond the loopback interface without certificates, tokens or a policy: whoever reaches it may run any graph on it. docs/security.md tells how to change that; --insecure says that it is meant so",
		n.self.Address)
}

// guest reports whether the node is a task of a cluster that a client declared. Certificates name the tasks of the servers' own clusters,
// not of such a cluster.
func (n *Node) guest() bool { return n.config.lent != nil }

// identify returns the function that checks the certificate of a stream's caller; nil without certificates.
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

// certified returns the certificate of the caller in ctx, and the name in it.
func certified(ctx context.Context) (*x509.Certificate, access.Name, error) {
	p, _ := http2.PeerOf(ctx)
	if p.TLS == nil || len(p.TLS.PeerCertificates) == 0 {
		return nil, access.Name{}, status.Errorf(status.Unauthenticated, "The caller has no certificate.")
	}
	cert := p.TLS.PeerCertificates[0]
	name, err := access.NameOf(cert)
	return cert, name, err
}

// confirms reports whether to ask a task's address whether it opens a link: always, except where its certificate names it.
func (n *Node) confirms() bool { return n.config.Credentials == nil || n.guest() }

// strangers reports whether a task may join the cluster although no task of the cluster spec knows it: either its certificate or the secret
// proves it, or everybody who reaches the port has the same rights anyway.
func (n *Node) strangers() bool {
	return !n.guest() && (n.config.Credentials != nil || n.secret != nil || n.config.Guard == nil)
}

// proves reports whether servers prove that they have the same owner, by certificates or the secret.
func (n *Node) proves() bool { return n.config.Credentials != nil || n.secret != nil }

// admitMaster returns the owner that asks for a guest, and the ceiling of the guest's rights. The ceiling is nil for a master that proves
// to be a server of the same owner. Any other master is treated as a client: it gets the rights that it would get as the client of a
// session, and no more than its own client has.
func (n *Node) admitMaster(ctx context.Context, q *wire.LendRequest) (owner string, ceiling *actors.Rights, err error) {
	if n.proves() {
		return q.GetOwner(), nil, n.provenMaster(ctx, q)
	}
	caller, err := gateway.CallerOf(ctx, n.config.Guard)
	if err != nil {
		return "", nil, err
	}
	by, err := caller.Declarer(ctx)
	if err != nil {
		return "", nil, err
	}
	if err := n.boundable(); err != nil {
		return "", nil, err
	}
	r := by.Rights
	r.Files = min(r.Files, actors.FileRights(min(q.GetFiles(), uint32(actors.AllFiles))))
	return unprovenOwner(by.Owner, q.GetOwner()), &r, nil
}

// boundable rejects clusters of several servers without proofs if a policy restricts clients: any process that answers at one of the
// addresses would be a task of the cluster, and no rule would restrict what it asks of the others.
func (n *Node) boundable() error {
	if g := n.config.Guard; g == nil || !g.HasPolicy() || n.proves() {
		return nil
	}
	return status.Errorf(status.PermissionDenied, "%s has a policy, and takes part in clusters that clients declare (cluster_def) only with servers that show who they are: start all of them with the same --secret-file, or with certificates", n.self.Name())
}

// unprovenOwner returns the owner of a cluster among servers that do not prove themselves. What a master says about its client counts only
// among clusters of masters at the same place.
func unprovenOwner(master, client string) string { return master + ", for " + client }

// provenMaster rejects a master that does not prove to be a server of the same owner.
func (n *Node) provenMaster(ctx context.Context, q *wire.LendRequest) error {
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

// lendParts returns the signed parts of a request to join a declared cluster.
func lendParts(q *wire.LendRequest) [][]byte {
	return [][]byte{binary.BigEndian.AppendUint64(nil, q.GetCluster()), []byte(q.GetSpec()), []byte(q.GetTask()),
		[]byte(q.GetMaster()), binary.BigEndian.AppendUint64(nil, q.GetBoot()),
		[]byte(q.GetOwner()), []byte(q.GetWho()), binary.BigEndian.AppendUint32(nil, q.GetFiles())}
}

// taskCredentials are credentials as the port of a task uses them: the process at a declared task's address must be that task.
type taskCredentials struct {
	*access.Credentials
	tasks map[string]spec.Task // by address
	// learned returns the task at an address if the cluster spec does not have it.
	learned func(address string) (spec.Task, bool)
}

var _ port.Credentials = (*taskCredentials)(nil)

// credentials returns those of the node's port; nil without any.
func (n *Node) credentials() port.Credentials {
	if n.config.Credentials == nil {
		return nil // not a nil *taskCredentials
	}
	c := &taskCredentials{Credentials: n.config.Credentials, tasks: map[string]spec.Task{}}
	if !n.guest() {
		for _, t := range n.spec.Tasks() {
			c.tasks[t.Address] = t
		}
		c.learned = func(address string) (t spec.Task, ok bool) {
			if l := n.linked.Load(); l != nil {
				t, ok = l.TaskAt(address)
			}
			return t, ok
		}
	}
	return c
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
