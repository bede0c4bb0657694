package doctor

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/view"
)

const (
	ps      = "/job:ps/replica:0/task:0"
	worker  = "/job:worker/replica:0/task:0"
	twoSpec = "ps=10.0.0.1:2222;worker=10.0.0.2:2222"
)

// healthy returns the facts of a cluster of two tasks without problems. The ps runs on this machine.
func healthy() *Facts {
	task := func(name, address, ip string) Task {
		process := &view.Process{Version: "v1", Host: "a", Pid: 7, Clock: 1, MemoryLimit: 8 << 30, MemoryInUse: 1 << 30, Processors: 4}
		other := map[string]string{ps: worker, worker: ps}[name]
		return Task{Name: name, Address: address, IPs: []netip.Addr{netip.MustParseAddr(ip)}, TCP: Probe{Outcome: Answered}, UDP: Probe{Outcome: Answered},
			Answers: Troupe, RoundTrip: time.Millisecond,
			Seen: &view.Cluster{Task: name, Spec: twoSpec, Tasks: []*view.Task{{Task: name, State: "up", Process: process, Totals: &view.Totals{}}, {Task: other, State: "up"}}}}
	}
	f := &Facts{Declared: twoSpec, Tasks: []Task{task(ps, "10.0.0.1:2222", "10.0.0.1"), task(worker, "10.0.0.2:2222", "10.0.0.2")},
		Env: map[string]string{}, Machine: Machine{Host: "a", Processors: 4, Memory: 16 << 30, Available: 8 << 30, SwapTotal: -1, SwapFree: -1, TempFree: 1 << 40, FileLimit: 1 << 20}}
	f.Tasks[0].Local = true
	f.Tasks[0].Process = &Process{PID: 7, FileLimit: 1 << 20, OpenFiles: 20}
	return f
}

func TestHealthy(t *testing.T) {
	if found := Check(healthy()); len(found) != 0 {
		t.Errorf("a healthy cluster has findings: %v", found)
	}
	if found := Check(&Facts{Machine: Machine{Memory: 1 << 30, Available: -1, TempFree: -1, FileLimit: -1}}); len(found) != 0 {
		t.Errorf("no cluster has findings: %v", found)
	}
}

func TestChecks(t *testing.T) {
	down := func(f *Facts, p Probe) {
		f.Tasks[1].TCP, f.Tasks[1].UDP, f.Tasks[1].Answers, f.Tasks[1].Seen = p, Probe{}, Nothing, nil
	}
	answers := func(f *Facts, a Answer) {
		f.Tasks[1].Answers, f.Tasks[1].Why, f.Tasks[1].Seen, f.Tasks[1].UDP = a, "the reason", nil, Probe{}
	}
	serves := func(f *Facts, i int) *view.Process { return f.Tasks[i].Seen.Tasks[0].Process }
	for _, c := range []struct {
		name, check string
		severity    Severity
		task        string
		says        string
		change      func(f *Facts)
	}{
		{"malformed", "declaration", Error, "", "no address", func(f *Facts) { f.Malformed = "no address" }},
		{"TF_CONFIG is no JSON", "environment", Error, "", "TF_CONFIG in the environment cannot be read", func(f *Facts) { f.Env["TF_CONFIG"] = "{" }},
		{"TF_CONFIG is stale", "environment", Warning, "", "declares another cluster, ps=h:1,", func(f *Facts) {
			f.Env["TF_CONFIG"] = `{"cluster":{"ps":["h:1"]},"task":{"type":"ps","index":0}}`
		}},
		{"unknown host", "hosts", Error, worker, "no such host", func(f *Facts) {
			down(f, Probe{})
			f.Tasks[1].IPs, f.Tasks[1].LookupError = nil, "no such host"
		}},
		{"same address", "addresses", Error, worker, "leads to 10.0.0.1:2222, as the address of " + ps, func(f *Facts) { f.Tasks[1].IPs = f.Tasks[0].IPs }},
		{"loopback among machines", "addresses", Error, ps, "loopback", func(f *Facts) { f.Tasks[0].IPs = []netip.Addr{netip.MustParseAddr("127.0.1.1")} }},
		{"all addresses", "addresses", Error, ps, "stands for all addresses", func(f *Facts) { f.Tasks[0].IPs = []netip.Addr{netip.MustParseAddr("0.0.0.0")} }},
		{"not this machine's", "self", Error, worker, "is not an address of this machine", func(f *Facts) { f.Self = worker }},
		{"own name is the loopback interface's", "self", Error, ps, "is of the loopback interface on this machine", func(f *Facts) {
			f.Self, f.Tasks[0].IPs = ps, []netip.Addr{netip.MustParseAddr("127.0.1.1")}
		}},
		{"no such task", "self", Error, "/job:x/replica:0/task:0", "no such task", func(f *Facts) { f.Self = "/job:x/replica:0/task:0" }},
		{"refused", "reach", Error, worker, "nothing listens", func(f *Facts) { down(f, Probe{Outcome: Refused}) }},
		{"not started", "reach", Note, "", "no task of the cluster runs: nothing listens at 10.0.0.1:2222, 10.0.0.2:2222", func(f *Facts) {
			down(f, Probe{Outcome: Refused})
			f.Tasks[0].TCP, f.Tasks[0].UDP, f.Tasks[0].Answers, f.Tasks[0].Seen = Probe{Outcome: Refused}, Probe{}, Nothing, nil
		}},
		{"target refused", "reach", Error, worker, "nothing listens", func(f *Facts) {
			down(f, Probe{Outcome: Refused})
			f.Declared, f.Tasks = "", f.Tasks[1:]
		}},
		{"timed out", "reach", Error, worker, "timed out", func(f *Facts) { down(f, Probe{Outcome: TimedOut}) }},
		{"no route", "reach", Error, worker, "no route to host", func(f *Facts) { down(f, Probe{Outcome: Unreachable, Error: "no route to host"}) }},
		{"far away", "reach", Note, worker, "a connection takes 80ms", func(f *Facts) { f.Tasks[1].TCP.RoundTrip = 80 * time.Millisecond }},
		{"another task", "who", Error, worker, "is served by /job:worker/replica:0/task:9", func(f *Facts) {
			f.Tasks[1].Seen.Task = "/job:worker/replica:0/task:9"
			f.Tasks[1].Seen.Tasks[0].Task = f.Tasks[1].Seen.Task
		}},
		{"older", "who", Warning, worker, "older version", func(f *Facts) { answers(f, OlderTroupe) }},
		{"TensorFlow", "who", Note, worker, "TensorFlow's own server", func(f *Facts) { answers(f, TensorFlow) }},
		{"unauthorized", "who", Error, worker, "does not accept this client: the reason", func(f *Facts) { answers(f, Unauthorized) }},
		{"without TLS", "who", Error, worker, "does not speak TLS", func(f *Facts) { answers(f, NoTLS) }},
		{"frozen", "who", Error, worker, "does not answer: the reason", func(f *Facts) { answers(f, Silent) }},
		{"other", "who", Error, worker, "is not a server of a cluster: the reason", func(f *Facts) { answers(f, Other) }},
		{"no packets", "udp", Warning, worker, "not over UDP (timed out)", func(f *Facts) { f.Tasks[1].UDP = Probe{Outcome: TimedOut} }},
		{"one way", "peers", Error, ps, "does not see " + worker + ", which answers here: no route", func(f *Facts) {
			f.Tasks[0].Seen.Tasks[1].State, f.Tasks[0].Seen.Tasks[1].Reason = "down", "no route"
		}},
		{"another spec", "spec", Error, worker, "is at 10.0.0.1:2222 here and at 10.0.0.9:2222 there", func(f *Facts) { f.Tasks[1].Seen.Spec = "ps=10.0.0.9:2222;worker=10.0.0.2:2222" }},
		{"versions", "version", Warning, "", "v1 on " + ps + "; v2 on " + worker, func(f *Facts) { serves(f, 1).Version = "v2" }},
		{"clock ahead", "clock", Warning, worker, "its clock is 5s ahead of that of " + ps, func(f *Facts) { f.Tasks[1].Skew = 5 * time.Second }},
		{"all clocks", "clock", Warning, "", "5s apart", func(f *Facts) { f.Tasks[0].Skew, f.Tasks[1].Skew = -5*time.Second, -5*time.Second }},
		{"certificate", "certificates", Warning, ps, "its certificate expires in 9 days, at ", func(f *Facts) {
			p := f.Tasks[0].Seen.Tasks[0].Process
			p.CertificateFrom, p.CertificateUntil = time.Now().AddDate(-1, 0, 0).UnixNano(), time.Now().AddDate(0, 0, 10).UnixNano()
		}},
		{"expired certificate", "certificates", Warning, ps, "its certificate has expired, at ", func(f *Facts) {
			p := f.Tasks[0].Seen.Tasks[0].Process
			p.CertificateFrom, p.CertificateUntil = time.Now().AddDate(-1, 0, 0).UnixNano(), time.Now().Add(-time.Second).UnixNano()
		}},
		{"exposed", "security", Warning, ps, "whoever reaches it", func(f *Facts) { f.Tasks[0].Seen.Exposed = "whoever reaches it" }},
		{"full", "memory", Warning, worker, "7.5 GiB of its limit of 8 GiB are in use", func(f *Facts) { serves(f, 1).MemoryInUse = 7680 << 20 }},
		{"overcommit", "memory", Warning, "", "the 2 processes of the cluster on this machine may take 24 GiB together, and it has 16 GiB", func(f *Facts) {
			f.Tasks[1].Process = &Process{PID: 8, FileLimit: -1, OpenFiles: -1}
			serves(f, 1).MemoryLimit = 16 << 30
		}},
		{"little left", "memory", Warning, "", "1 GiB of 16 GiB of memory left", func(f *Facts) { f.Machine.Available = 1 << 30 }},
		{"swapped", "swap", Warning, ps, "1 GiB of its process are swapped out", func(f *Facts) { f.Tasks[0].Process.Swapped = 1 << 30 }},
		{"swap in use", "swap", Note, "", "3 GiB of 4 GiB of swap", func(f *Facts) { f.Machine.SwapTotal, f.Machine.SwapFree = 4<<30, 1<<30 }},
		{"files used up", "files", Error, ps, "1000 of at most 1024 files", func(f *Facts) { f.Tasks[0].Process.FileLimit, f.Tasks[0].Process.OpenFiles = 1024, 1000 }},
		{"few files", "files", Warning, ps, "needs up to 1072 for 2 tasks and 1000 connections", func(f *Facts) {
			f.Tasks[0].Process.FileLimit = 1024
			f.Tasks[0].Seen.Tasks[0].Totals.ClientConnections = 1000
		}},
		{"few files here", "files", Warning, "", "may open 64 files", func(f *Facts) { f.Tasks[0].Process, f.Machine.FileLimit = nil, 64 }},
		{"quota", "processors", Warning, ps, "computes on 4 processors at once, and its control group may use 1.5", func(f *Facts) { f.Machine.Quota = 1.5 }},
		{"GOMAXPROCS", "processors", Warning, "", "GOMAXPROCS is 8", func(f *Facts) {
			f.Machine.Quota, f.Machine.GOMAXPROCS, f.Tasks[0].Process = 1.5, 8, nil
		}},
		{"crowd", "processors", Warning, "", "11 tasks of the cluster are on this machine, which has 2 processors", func(f *Facts) {
			f.Tasks[1].Local = true
			for range 9 {
				f.Tasks = append(f.Tasks, Task{Name: "x", Local: true})
			}
			f.Machine.Processors = 2
		}},
		{"no room", "disk", Warning, "", "1 MiB left", func(f *Facts) { f.Machine.TempFree = 1 << 20 }},
		{"no directory", "disk", Warning, "", "cannot be used: no such directory", func(f *Facts) { f.Machine.TempError = "no such directory" }},
		{"no room for durable containers", "data", Error, ps, "durable containers: the disk has 5 bytes free", func(f *Facts) {
			f.Tasks[0].Seen.Tasks[0].Data = &view.Data{Directory: "/data/ps-0", Refusing: "the disk has 5 bytes free"}
		}},
		{"cards without CUDA", "gpu", Warning, "", "2 NVIDIA cards", func(f *Facts) { f.Machine.GPUs = 2 }},
		{"proxy", "proxy", Warning, "", "http_proxy is set: TensorFlow's client connects to 10.0.0.2 through", func(f *Facts) {
			f.Env["http_proxy"], f.Env["no_proxy"] = "http://p:1", "localhost, 10.0.0.1"
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := healthy()
			c.change(f)
			found := Check(f)
			for _, g := range found {
				if g.Check == c.check && g.Severity == c.severity && g.Task == c.task && strings.Contains(g.Found, c.says) && g.Remedy != "" {
					return
				}
			}
			t.Errorf("no finding of %s says %q of %q: %+v", c.check, c.says, c.task, found)
		})
	}
}

func TestOrder(t *testing.T) {
	f := healthy()
	f.Tasks[1].TCP.RoundTrip = time.Second
	f.Machine.TempFree = 0
	f.Malformed = "x"
	var order []Severity
	for _, g := range Check(f) {
		order = append(order, g.Severity)
	}
	if len(order) != 3 || order[0] != Error || order[1] != Warning || order[2] != Note {
		t.Errorf("findings are in the order %v", order)
	}
}

func TestExcludes(t *testing.T) {
	for _, c := range []struct {
		list, host string
		want       bool
	}{{"", "h", false}, {"h", "h", true}, {"example.com", "a.example.com", true}, {"a, 127.0.0.1", "127.0.0.1", true}, {"*", "h", true}, {"b,", "h", false}} {
		if got := excludes(c.list, c.host); got != c.want {
			t.Errorf("excludes(%q, %q) = %v", c.list, c.host, got)
		}
	}
}
