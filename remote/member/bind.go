package member

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/network"
	"github.com/troupe-run/troupe/remote/spec"
)

// Binding describes where a task binds its port; [Bind] returns it.
type Binding struct {
	// Address is the host:port to bind.
	Address string
	// Everywhere is why Address is the port on all interfaces although the cluster spec names another host, or empty if it is not.
	Everywhere string
	// Warning is why tasks of other machines cannot reach the task, or empty if nothing is known to prevent them.
	Warning string
}

// Bind returns where a task should bind its port. It binds nothing. A nil network means the machine's. The result depends on what the host
// that the spec gives the task is on this machine:
//
//   - An address of this machine: Bind returns that address.
//   - Not an address of this machine, such as the name of a Kubernetes Service or of a machine that forwards a port: Bind returns the
//     port on all interfaces, which is what TensorFlow's servers always bind. Everybody who reaches the machine can then call the task,
//     so this requires certificates, a secret, or a program that asks for it (open).
//   - Only the loopback interface, such as localhost or a machine's own name as some systems declare it in /etc/hosts: Bind returns the
//     port on all interfaces if open is set and a task of the cluster is on another machine. Otherwise it returns the loopback address,
//     with a warning if another machine has a task.
//
// Errors: INVALID_ARGUMENT for an unknown host, FAILED_PRECONDITION for a host that is not this machine. They say how to bind the port
// anyway. ctx bounds the lookups.
func Bind(ctx context.Context, nw network.Network, s *spec.Spec, self spec.Task, open bool) (Binding, error) {
	if nw == nil {
		nw = network.System
	}
	host, port, err := spec.SplitAddress(self.Address)
	if err != nil || strings.Contains(host, "%") { // an address with a zone is bound as it is
		return Binding{Address: self.Address}, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	ips, err := hostIPs(ctx, nw, host)
	everywhere := net.JoinHostPort(unspecified(ips), strconv.Itoa(port))
	if err != nil {
		if open {
			return Binding{everywhere, host + " is not known on this machine", ""}, nil
		}
		return Binding{}, status.InvalidArgumentf("Could not find the address of this server, %s: %v. Name a host of this machine in the cluster spec. %s", self.Address, err, bindAdvice(everywhere))
	}
	local := slices.IndexFunc(ips, func(ip net.IP) bool { return !ip.IsLoopback() && isLocal(nw, ip) })
	switch {
	case local >= 0:
		return Binding{Address: net.JoinHostPort(ips[local].String(), strconv.Itoa(port))}, nil
	case !slices.ContainsFunc(ips, net.IP.IsLoopback):
		if open {
			return Binding{everywhere, host + " is not an address of this machine", ""}, nil
		}
		return Binding{}, status.Errorf(status.FailedPrecondition, "Could not start the server at %s: %s is not an address of this machine. Start the task on the machine that the cluster spec names. %s",
			self.Address, said(host, ips[0]), bindAdvice(everywhere))
	}
	bound := net.JoinHostPort(ips[slices.IndexFunc(ips, net.IP.IsLoopback)].String(), strconv.Itoa(port))
	beyond, ok := beyond(ctx, nw, s, self)
	switch {
	case !ok:
		return Binding{Address: bound}, nil
	case open:
		return Binding{everywhere, fmt.Sprintf("%s is of the loopback interface, and %v is on another machine", host, beyond), ""}, nil
	}
	return Binding{bound, "", fmt.Sprintf("%s is of the loopback interface on this machine, so that tasks of other machines, such as %v, cannot connect. Let the name lead to an address of the network (/etc/hosts), or bind the port on all interfaces: %s",
		said(host, ips[0]), beyond, BindFlag(everywhere))}, nil
}

// said returns host for messages to people, followed by its address if the two differ.
func said(host string, ip net.IP) string {
	if host == ip.String() {
		return host
	}
	return host + " (" + ip.String() + ")"
}

// bindAdvice returns advice on how to bind an address other than the one in the cluster spec.
func bindAdvice(address string) string {
	return "If others reach this machine there, as through a forwarded port or a Service of Kubernetes, bind the port on all interfaces: " + BindFlag(address)
}

// BindFlag returns the flag and the options that make a server bind a host:port.
func BindFlag(address string) string {
	return fmt.Sprintf("--bind %s (in Go, WithBind(%q); in Python, flags=[%q])", address, address, "--bind="+address)
}

// hostIPs returns the addresses of a host, IPv4 first. Without an error there is at least one.
func hostIPs(ctx context.Context, nw network.Network, host string) ([]net.IP, error) {
	if ip := net.ParseIP(host); ip != nil {
		return []net.IP{ip}, nil
	}
	ips, err := nw.LookupIP(ctx, host)
	if err != nil {
		return nil, err
	}
	if len(ips) == 0 {
		return nil, &net.DNSError{Err: "no address", Name: host, IsNotFound: true}
	}
	slices.SortStableFunc(ips, func(a, b net.IP) int { return len(b.To4()) - len(a.To4()) })
	return ips, nil
}

// unspecified returns the address of all interfaces: IPv6's if the host has only IPv6 addresses.
func unspecified(ips []net.IP) string {
	if len(ips) > 0 && !slices.ContainsFunc(ips, func(ip net.IP) bool { return ip.To4() != nil }) {
		return "::"
	}
	return "0.0.0.0"
}

// isLocal reports whether an address belongs to this machine or is unspecified: other machines' addresses cannot be bound.
func isLocal(nw network.Network, ip net.IP) bool {
	c, err := nw.ListenUDP(&net.UDPAddr{IP: ip})
	if err == nil {
		_ = c.Close() // never used
	}
	return !errors.Is(err, syscall.EADDRNOTAVAIL)
}

// beyond returns a task on another machine, as far as this machine can resolve names.
func beyond(ctx context.Context, nw network.Network, s *spec.Spec, self spec.Task) (spec.Task, bool) {
	looked := map[string]bool{}
	for _, t := range s.Tasks() {
		host, _, err := spec.SplitAddress(t.Address)
		if t == self || err != nil || looked[host] {
			continue
		}
		looked[host] = true
		ips, err := hostIPs(ctx, nw, host)
		if err == nil && !slices.ContainsFunc(ips, func(ip net.IP) bool { return isLocal(nw, ip) }) {
			return t, true
		}
	}
	return spec.Task{}, false
}
