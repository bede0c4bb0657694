package remote

import (
	"context"
	"encoding/binary"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/gateway"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/member"
)

// Which server may be the master of a cluster that a client declares among servers.

// admitMaster returns the owner that asks for a guest, and the ceiling of the guest's rights. The ceiling is nil for a master that proves
// to be a server of the same owner. Any other master is treated as a client: it gets the rights that it would get as the client of a
// session, and no more than its own client has.
func (n *Node) admitMaster(ctx context.Context, q *wire.LendRequest) (owner string, ceiling *actors.Rights, err error) {
	if n.Proves() {
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
	if g := n.config.Guard; g == nil || !g.HasPolicy() || n.Proves() {
		return nil
	}
	return status.Errorf(status.PermissionDenied, "%s has a policy, and takes part in clusters that clients declare (cluster_def) only with servers that show who they are: start all of them with the same --secret-file, or with certificates", n.Self().Name())
}

// unprovenOwner returns the owner of a cluster among servers that do not prove themselves. What a master says about its client counts only
// among clusters of masters at the same place.
func unprovenOwner(master, client string) string { return master + ", for " + client }

// provenMaster rejects a master that does not prove to be a server of the same owner.
func (n *Node) provenMaster(ctx context.Context, q *wire.LendRequest) error {
	if n.config.Credentials != nil {
		_, name, err := member.Certified(ctx)
		if err != nil {
			return err
		}
		if name.Job() == "" {
			return status.Errorf(status.PermissionDenied, "The certificate of %s is not a server's: it may not make this server a task of a cluster.", name)
		}
	}
	if n.Secret() != nil && !n.Secret().CheckGuest(q.GetProof(), lendParts(q)...) {
		return status.Errorf(status.Unauthenticated, "The master %s does not know the secret of %s. Start all servers with the same --secret-file.", q.GetMaster(), n.Self().Name())
	}
	return nil
}

// lendParts returns the signed parts of a request to join a declared cluster.
func lendParts(q *wire.LendRequest) [][]byte {
	return [][]byte{binary.BigEndian.AppendUint64(nil, q.GetCluster()), []byte(q.GetSpec()), []byte(q.GetTask()),
		[]byte(q.GetMaster()), binary.BigEndian.AppendUint64(nil, q.GetBoot()),
		[]byte(q.GetOwner()), []byte(q.GetWho()), binary.BigEndian.AppendUint32(nil, q.GetFiles())}
}
