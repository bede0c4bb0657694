package doctor

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/member"
	"github.com/troupe-run/troupe/remote/spec"
)

const (
	tfConfig = "TF_CONFIG"
	// atOnce bounds the tasks that are queried at the same time.
	atOnce = 64
	// eachTime bounds one attempt to reach a task.
	eachTime = 3 * time.Second
	// looks is how often a task is queried; the fastest answer counts.
	looks = 3
)

// Config is what Collect looks at.
type Config struct {
	// Target is a server, host:port, or several separated by commas. The cluster of the first that answers is examined.
	// Cluster is a declaration in the form that flags take. Without both, TF_CONFIG declares the cluster if it is set;
	// otherwise only the machine is examined.
	Target, Cluster string
	// Job and Task name the task that is to run on this machine; Task counts if there is a Job.
	Job  string
	Task int
	// Options are those of clients: certificates and tokens.
	Options []client.Option
}

// Collect gathers the facts. It waits at most until ctx ends. Facts that are not known by then are left out.
func Collect(ctx context.Context, c Config) *Facts {
	f := &Facts{Version: member.Version(), Env: environ(), Machine: thisMachine()}
	declared := c.declared(f)
	if c.Target != "" {
		for target := range strings.SplitSeq(c.Target, ",") {
			t := Task{Address: strings.TrimPrefix(strings.TrimSpace(target), "grpc://")}
			t.examine(ctx, c.Options, nil)
			theirs, err := spec.Parse(t.Seen.GetSpec())
			if t.Answers == Troupe && err == nil {
				declared = theirs
				break
			}
			f.Tasks = append(f.Tasks, t)
		}
		if declared == nil {
			f.examineProcesses()
			return f
		}
	}
	if declared == nil {
		return f
	}
	f.Declared = declared.String()
	if c.Job != "" {
		f.Self = spec.TaskName(c.Job, c.Task)
	}
	local := localIPs()
	f.Tasks = make([]Task, declared.Len())
	var asked sync.WaitGroup
	room := make(chan struct{}, atOnce)
	for i, t := range declared.Tasks() {
		f.Tasks[i] = Task{Name: t.Name(), Address: t.Address}
		asked.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			f.Tasks[i].examine(ctx, c.Options, local)
			if declared.Len() > 1 && f.Tasks[i].Answers == Troupe && !f.Tasks[i].Serves().GetSecret() {
				f.Tasks[i].UDP = probeUDP(ctx, t.Address, t.Name())
			}
		})
	}
	asked.Wait()
	f.examineProcesses()
	return f
}

// declared returns the cluster that flags or the environment declare, or nil if there is none.
func (c Config) declared(f *Facts) *spec.Spec {
	if c.Target != "" {
		return nil
	}
	if c.Cluster != "" {
		s, err := spec.Parse(c.Cluster)
		if err != nil {
			f.Malformed = err.Error()
			return nil
		}
		return s
	}
	if s, _, err := spec.FromTFConfig([]byte(f.Env[tfConfig])); err == nil {
		return s
	}
	return nil // a check reports what is wrong with TF_CONFIG
}

func environ() map[string]string {
	env := map[string]string{}
	for _, name := range []string{tfConfig, "grpc_proxy", "https_proxy", "http_proxy", "no_grpc_proxy", "no_proxy"} {
		if value, ok := os.LookupEnv(name); ok {
			env[name] = value
		}
	}
	return env
}

// localIPs returns the addresses of this machine's interfaces.
func localIPs() map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	found, err := net.InterfaceAddrs()
	if err != nil {
		return all // then only loopback addresses are local
	}
	for _, a := range found {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			all[p.Addr().Unmap()] = true
		}
	}
	return all
}

// examine looks up the task's host, connects to its port, and asks what serves there.
func (t *Task) examine(ctx context.Context, opts []client.Option, local map[netip.Addr]bool) {
	if local == nil {
		local = localIPs()
	}
	if !t.lookup(ctx, local) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 3*eachTime)
	defer cancel()
	if t.TCP = probeTCP(ctx, t.Address); t.TCP.Outcome == Answered {
		t.ask(ctx, opts)
	}
}

func (t *Task) lookup(ctx context.Context, local map[netip.Addr]bool) bool {
	host, _, err := spec.SplitAddress(t.Address)
	if err != nil {
		t.LookupError = err.Error()
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, eachTime)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		t.LookupError = err.Error()
		return false
	}
	for _, ip := range found {
		t.IPs = append(t.IPs, ip.Unmap())
		t.Local = t.Local || ip.IsLoopback() || local[ip.Unmap()]
	}
	return true
}

func probeTCP(ctx context.Context, address string) Probe {
	d := net.Dialer{Timeout: eachTime}
	begun := time.Now()
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return outcome(err)
	}
	p := Probe{Outcome: Answered, RoundTrip: time.Since(begun)}
	c.Close() //nolint:errcheck // nothing was sent
	return p
}

// ask finds out what serves at the address, and what it reports about itself.
func (t *Task) ask(ctx context.Context, opts []client.Option) {
	c, err := client.Dial(ctx, member.Target(t.Address), append([]client.Option{client.WithTimeout(eachTime)}, opts...)...)
	if err != nil {
		t.Answers, t.Why = Other, err.Error()
		return
	}
	defer c.Close(ctx)
	for range looks {
		sent := time.Now()
		seen, err := c.See(ctx, &view.Query{Sections: []string{"devices"}})
		if err != nil {
			t.refuses(ctx, c, err)
			return
		}
		took := time.Since(sent)
		if t.Seen != nil && took >= t.RoundTrip {
			continue
		}
		t.Answers, t.Seen, t.RoundTrip = Troupe, seen, took
		if clock := t.Serves().GetClock(); clock != 0 {
			t.Skew = time.Unix(0, clock).Sub(sent.Add(took / 2))
		}
	}
}

// refuses finds out what kind of server did not answer the query, from the error and from calls that other servers
// support.
func (t *Task) refuses(ctx context.Context, c *client.Client, err error) {
	if t.Seen != nil {
		return // it has answered before
	}
	t.Why = err.Error()
	switch status.CodeOf(err) {
	case status.Unimplemented:
		if _, err := c.Status(ctx); err == nil {
			t.Answers = OlderTroupe
		} else if _, err := c.Devices(ctx); err == nil {
			t.Answers = TensorFlow
		} else {
			t.Answers, t.Why = Other, err.Error()
		}
	case status.Unauthenticated, status.PermissionDenied:
		t.Answers = Unauthorized
	case status.DeadlineExceeded:
		t.Answers = Silent
	default:
		t.Answers = Other
		switch {
		case strings.Contains(t.Why, "does not look like a TLS handshake"):
			t.Answers = NoTLS
		case strings.Contains(t.Why, "tls:"):
			t.Answers = Unauthorized
		default:
			if says := greeting(ctx, t.Address); says != "" {
				t.Why = "it says " + says
			}
		}
	}
}

// greeting returns the beginning of a server's answer to an HTTP/1 request, which servers of other protocols take for a
// mistake. It is empty if the server does not answer.
func greeting(ctx context.Context, address string) string {
	d := net.Dialer{Timeout: eachTime}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return ""
	}
	defer c.Close()
	if c.SetDeadline(time.Now().Add(time.Second)) != nil {
		return ""
	}
	if _, err := fmt.Fprintf(c, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		return ""
	}
	b := make([]byte, 60)
	n, err := c.Read(b)
	if n == 0 || err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(b[:n]), "\r\n")
	return fmt.Sprintf("%q", first)
}

// examineProcesses reads what the system reports about the tasks' processes that run on this machine.
func (f *Facts) examineProcesses() {
	for i := range f.Tasks {
		t := &f.Tasks[i]
		p := t.Serves()
		if p.GetPid() == 0 || p.GetHost() != f.Machine.Host || t.Name != "" && !t.Local {
			continue
		}
		if found, ok := readProcess(p.GetPid()); ok {
			t.Process = &found
		}
	}
}
