package member

import (
	"context"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/network"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/internal/link"
	"github.com/troupe-run/troupe/remote/internal/port"
	"github.com/troupe-run/troupe/remote/spec"
)

const (
	// seedPause is the time between two rounds of asking seeds.
	seedPause = 250 * time.Millisecond
	// holderTime bounds the question which process serves an address.
	holderTime = time.Second
	// lookupTime bounds the lookup of a host's addresses.
	lookupTime = 2 * time.Second
)

// Discover learns the cluster from any one of seeds (host:port or grpc://host:port): the tasks that it declares, and what the answering
// task knows of each. If no seed answers, Discover retries until patience is over; the error is then UNAVAILABLE and lists each seed with
// its reason. The credentials may be nil.
func Discover(ctx context.Context, credentials *access.Credentials, patience time.Duration, seeds ...string) (*spec.Spec, []TaskStatus, error) {
	if len(seeds) == 0 {
		return nil, nil, status.InvalidArgumentf("No seed is given: a seed reads host:port")
	}
	targets := make([]string, len(seeds))
	for i, seed := range seeds {
		targets[i] = Target(seed)
	}
	var opts []client.Option
	if credentials != nil {
		opts = append(opts, client.WithCredentials(credentials))
	}
	until := time.Now().Add(patience)
	for {
		told, err := client.Discover(ctx, strings.Join(targets, ","), opts...)
		if err == nil {
			cluster, err := spec.Parse(told.Spec)
			if err != nil {
				return nil, nil, status.Internalf("%s sent an invalid cluster spec: %w", told.Task, err)
			}
			return cluster, told.Tasks, nil
		}
		if status.CodeOf(err) != status.Unavailable || time.Now().After(until) {
			return nil, nil, err
		}
		pause := time.NewTimer(seedPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, nil, err // more specific than ctx's error
		}
	}
}

// Target returns an address as a target: grpc://host:port. A target is returned unchanged.
func Target(address string) string {
	if strings.Contains(address, "://") {
		return address
	}
	return "grpc://" + address
}

// Holder asks the process at an address for its identity and returns the answer in words; it is empty if nobody answers. The credentials
// may be nil.
func Holder(ctx context.Context, credentials *access.Credentials, address string) string {
	ctx, cancel := context.WithTimeout(ctx, holderTime)
	defer cancel()
	return link.Holder(port.Caller(nil, CallWith(credentials)))(ctx, address)
}

// Machine knows which addresses belong to this machine. It caches its findings and is not safe for concurrent use.
type Machine struct{ hosts map[string]string }

// Refuses returns why a process of this machine cannot bind an address, or "" if nothing about the machine prevents it.
func (m *Machine) Refuses(ctx context.Context, address string) string {
	host, _, err := spec.SplitAddress(address)
	if err != nil {
		return status.From(err).Message
	}
	why, known := m.hosts[host]
	if !known {
		why = foreign(ctx, host)
		if m.hosts == nil {
			m.hosts = map[string]string{}
		}
		m.hosts[host] = why
	}
	return why
}

// foreign returns why a host is not this machine; empty if it is. An address whose ports can be bound belongs to the machine.
func foreign(ctx context.Context, host string) string {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	ips, err := hostIPs(ctx, network.System, host)
	if err != nil {
		return "the address of " + host + " is not known here"
	}
	if slices.ContainsFunc(ips, func(ip net.IP) bool { return isLocal(network.System, ip) }) {
		return ""
	}
	return host + " is not this machine"
}
