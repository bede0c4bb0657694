package doctor

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/internal/bytesize"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/member"
	"github.com/troupe-run/troupe/remote/spec"
)

// checks are all checks, in the order of their findings.
var checks = []struct {
	name string
	find func(*Facts) []Finding
}{
	{"declaration", declaration},
	{"environment", environment},
	{"hosts", hosts},
	{"addresses", addresses},
	{"self", self},
	{"reach", reach},
	{"who", who},
	{"udp", packets},
	{"peers", peers},
	{"spec", specs},
	{"version", versions},
	{"clock", clocks},
	{"security", security},
	{"certificates", certificates},
	{"memory", memory},
	{"swap", swap},
	{"files", files},
	{"processors", processors},
	{"disk", disk},
	{"data", data},
	{"gpu", gpu},
	{"proxy", proxies},
}

// Check returns all findings, the worst first.
func Check(f *Facts) []Finding {
	all := []Finding{}
	for _, c := range checks {
		for _, found := range c.find(f) {
			found.Check = c.name
			all = append(all, found)
		}
	}
	rank := map[Severity]int{Error: 0, Warning: 1, Note: 2}
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(rank[a.Severity], rank[b.Severity]) })
	return all
}

// Limits beyond which there are findings.
const (
	maxSkew       = 2 * time.Second
	leastTemp     = 1 << 30
	leastSwapped  = 64 << 20
	filesPerTask  = 8  // connections to another task: links, streams for large tensors, gossip
	filesAtRest   = 64 // open files of a task without clients and other tasks
	tasksPerCore  = 4
	fullFraction  = 0.9
	dullRoundTrip = 50 * time.Millisecond
)

func declaration(f *Facts) []Finding {
	if f.Malformed == "" {
		return nil
	}
	return []Finding{{Severity: Error, Found: "the cluster's declaration cannot be used: " + f.Malformed,
		Remedy: "write it as --cluster 'ps=host:port;worker=host:port,host:port', the same for all tasks"}}
}

// environment checks TF_CONFIG, which servers and TensorFlow's launchers read.
func environment(f *Facts) []Finding {
	text, ok := f.Env[tfConfig]
	if !ok || text == "" {
		return nil
	}
	declared, _, err := spec.FromTFConfig([]byte(text))
	switch {
	case err != nil:
		return []Finding{{Severity: Error, Found: tfConfig + " in the environment cannot be read: " + err.Error(),
			Remedy: "correct it, or unset it where --cluster declares the cluster"}}
	case f.Declared != "" && declared.String() != f.Declared:
		return []Finding{{Severity: Warning, Found: fmt.Sprintf("%s in the environment declares another cluster, %s, than the one that was asked for, %s", tfConfig, declared, f.Declared),
			Remedy: "unset it if it is stale: a server without --cluster takes its cluster from it"}}
	}
	return nil
}

func hosts(f *Facts) (all []Finding) {
	for i := range f.Tasks {
		t := &f.Tasks[i]
		if t.LookupError != "" {
			all = append(all, Finding{Severity: Error, Task: t.label(), Found: fmt.Sprintf("the host of %s is not known on this machine: %s", t.Address, t.LookupError),
				Remedy: "correct the name in the spec of all tasks, or make it known (DNS, /etc/hosts) on every machine of the cluster and of its clients" + ownName(f, t)})
		}
	}
	return all
}

// ownName returns what to add to a finding about the host of the task that is to run on this machine.
func ownName(f *Facts, t *Task) string {
	if t.Name != f.Self || f.Self == "" {
		return ""
	}
	return "; if it is this machine's name for the others, " + bindEverywhere(t.Address)
}

// addresses checks where the spec's addresses lead.
func addresses(f *Facts) (all []Finding) {
	var loopback, beyond []string
	first := map[netip.AddrPort]string{}
	for i := range f.Tasks {
		t := &f.Tasks[i]
		_, port, err := spec.SplitAddress(t.Address)
		if err != nil || len(t.IPs) == 0 {
			continue // the declaration or the lookup has failed: other checks report it
		}
		inside, unspecified := false, false
		for _, ip := range t.IPs {
			inside = inside || ip.IsLoopback()
			unspecified = unspecified || ip.IsUnspecified()
			at := netip.AddrPortFrom(ip.Unmap(), uint16(port))
			if other, ok := first[at]; ok && other != t.label() {
				all = append(all, Finding{Severity: Error, Task: t.label(), Found: fmt.Sprintf("%s leads to %v, as the address of %s does", t.Address, at, other),
					Remedy: "give each task an address of its own in the spec of all tasks"})
				break
			}
			first[at] = t.label()
		}
		switch {
		case unspecified && t.Name == f.Self: // the name of its own machine in its own spec
		case unspecified:
			all = append(all, Finding{Severity: Error, Task: t.label(), Found: t.Address + " stands for all addresses of a machine: no other machine can connect to it",
				Remedy: "declare an address that the other machines reach, and give that task --bind " + t.Address})
		case inside:
			loopback = append(loopback, t.label())
		default:
			beyond = append(beyond, t.label())
		}
	}
	if len(loopback) > 0 && len(beyond) > 0 {
		for _, task := range loopback {
			if task == f.Self {
				continue // see self
			}
			all = append(all, Finding{Severity: Error, Task: task, Found: fmt.Sprintf("its address is of the loopback interface, while %s has an address of the network: each machine reaches itself there", beyond[0]),
				Remedy: "declare an address that all machines reach; a machine's own name often leads to 127.0.1.1 in /etc/hosts"})
		}
	}
	return all
}

func self(f *Facts) []Finding {
	for i := range f.Tasks {
		t := &f.Tasks[i]
		if t.Name != f.Self || f.Self == "" || t.Local || len(t.IPs) == 0 {
			continue
		}
		return []Finding{{Severity: Error, Task: t.label(), Found: fmt.Sprintf("%s (%s) is not an address of this machine, %s", t.Address, joined(t.IPs), f.Machine.Host),
			Remedy: "start this task on the machine that has the address, or choose another --task here; behind a forwarded port, " + bindEverywhere(t.Address)}}
	}
	for i := range f.Tasks {
		t := &f.Tasks[i]
		elsewhere := slices.IndexFunc(f.Tasks, func(o Task) bool { return !o.Local && len(o.IPs) > 0 })
		if t.Name == f.Self && elsewhere >= 0 && len(t.IPs) > 0 && !slices.ContainsFunc(t.IPs, func(ip netip.Addr) bool { return !ip.IsLoopback() }) {
			return []Finding{{Severity: Error, Task: t.label(), Found: fmt.Sprintf("%s (%s) is of the loopback interface on this machine, %s: tasks of other machines, such as %s, cannot connect", t.Address, joined(t.IPs), f.Machine.Host, f.Tasks[elsewhere].label()),
				Remedy: "let the name lead to an address of the network (a machine's own name often leads to 127.0.1.1 in /etc/hosts), or " + bindEverywhere(t.Address) + "; with certificates or a secret the server does that by itself"}}
		}
	}
	if f.Self != "" && !slices.ContainsFunc(f.Tasks, func(t Task) bool { return t.Name == f.Self }) {
		return []Finding{{Severity: Error, Task: f.Self, Found: "the cluster has no such task", Remedy: "choose --job and --task of the declared cluster: " + f.Declared}}
	}
	return nil
}

// bindEverywhere returns how to bind the port of an address on all interfaces.
func bindEverywhere(address string) string {
	return "bind the port on all interfaces: " + member.BindFlag("0.0.0.0"+address[strings.LastIndexByte(address, ':'):])
}

func joined(ips []netip.Addr) string {
	texts := make([]string, len(ips))
	for i, ip := range ips {
		texts[i] = ip.String()
	}
	return strings.Join(texts, ", ")
}

// reach checks that something listens at each address. A declared cluster without a running task has probably not been started yet.
func reach(f *Facts) (all []Finding) {
	if f.Declared != "" && !slices.ContainsFunc(f.Tasks, func(t Task) bool { return t.TCP.Outcome != Refused }) {
		return []Finding{{Severity: Note, Found: fmt.Sprintf("no task of the cluster runs: nothing listens at %s", someOf(f.Tasks)),
			Remedy: "start each task on its machine, with the same --cluster; the logs of tasks that were started tell why they ended"}}
	}
	for i := range f.Tasks {
		t := &f.Tasks[i]
		found := Finding{Severity: Error, Task: t.label()}
		switch t.TCP.Outcome {
		case NotTried:
			continue
		case Answered:
			if t.TCP.RoundTrip > dullRoundTrip {
				all = append(all, Finding{Severity: Note, Task: t.label(), Found: fmt.Sprintf("a connection takes %v", t.TCP.RoundTrip.Round(time.Millisecond)),
					Remedy: "each step over several tasks waits for a round trip at least: keep the tasks of a cluster close together"})
			}
			continue
		case Refused:
			found.Found = t.Address + " refuses connections: the machine is there, but nothing listens at the port"
			found.Remedy = "start the task there, or correct its port in the spec of all tasks; the log of a task that was started says why it ended"
		case TimedOut:
			found.Found = t.Address + " does not answer: connecting timed out"
			found.Remedy = "check that the machine runs and that firewalls let TCP and UDP through to the port"
		case Unreachable:
			found.Found = fmt.Sprintf("%s cannot be reached: %s", t.Address, t.TCP.Error)
			found.Remedy = "check the address and this machine's routes to it"
		}
		all = append(all, found)
	}
	return all
}

// someOf lists the first few addresses of tasks.
func someOf(tasks []Task) string {
	const listed = 4
	var addresses []string
	for i := range tasks[:min(len(tasks), listed)] {
		addresses = append(addresses, tasks[i].Address)
	}
	text := strings.Join(addresses, ", ")
	if more := len(tasks) - listed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// who checks what serves at each address.
func who(f *Facts) (all []Finding) {
	for i := range f.Tasks {
		t := &f.Tasks[i]
		found := Finding{Severity: Error, Task: t.label()}
		switch t.Answers {
		case Nothing:
			continue
		case Troupe:
			if name := t.Seen.GetTask(); t.Name == "" || name == t.Name {
				continue
			} else {
				found.Found = fmt.Sprintf("%s is served by %s", t.Address, name)
				found.Remedy = "start all tasks with the same spec, and each with its own --job and --task"
			}
		case OlderTroupe:
			found.Severity = Warning
			found.Found = "an older version of Troupe serves there, which does not show its state: " + t.Why
			found.Remedy = "run one version on all tasks"
		case TensorFlow:
			found.Severity = Note
			found.Found = "TensorFlow's own server answers at " + t.Address
			found.Remedy = "tasks of TensorFlow and of Troupe cannot form one cluster; clients can use either"
		case Unauthorized:
			found.Found = fmt.Sprintf("the server at %s does not accept this client: %s", t.Address, t.Why)
			found.Remedy = "give a certificate (--tls-cert, --tls-key, --tls-ca) or a token (--token-file with --tls-ca)"
		case NoTLS:
			found.Found = fmt.Sprintf("the server at %s does not speak TLS, which this client asks for: %s", t.Address, t.Why)
			found.Remedy = "leave the flags of TLS out, or start the server with --tls-cert, --tls-key and --tls-ca"
		case Silent:
			found.Found = fmt.Sprintf("%s takes connections and does not answer: %s", t.Address, t.Why)
			found.Remedy = "the process may be stopped or overloaded: look at it on its machine (state, processor time, memory), and restart it if it stays so"
		case Other:
			found.Found = fmt.Sprintf("what listens at %s is not a server of a cluster: %s", t.Address, t.Why)
			found.Remedy = "find the process that has the port and stop it, or give the task another port in the spec of all tasks"
		}
		all = append(all, found)
	}
	return all
}

func packets(f *Facts) (all []Finding) {
	for i := range f.Tasks {
		t := &f.Tasks[i]
		if t.UDP.Outcome == NotTried || t.UDP.Outcome == Answered {
			continue
		}
		all = append(all, Finding{Severity: Warning, Task: t.label(), Found: fmt.Sprintf("%s answers over TCP, but not over UDP (%s): by gossip packets, tasks learn quickly which others are there", t.Address, t.UDP.Outcome),
			Remedy: "let UDP through to the task's port in both directions"})
	}
	return all
}

// peers checks that the tasks that this machine reaches also reach each other.
func peers(f *Facts) (all []Finding) {
	reached := map[string]bool{}
	for i := range f.Tasks {
		reached[f.Tasks[i].Name] = f.Tasks[i].Answers == Troupe
	}
	for i := range f.Tasks {
		t := &f.Tasks[i]
		for _, other := range t.Seen.GetTasks() {
			if other.GetState() == "up" || !reached[other.GetTask()] || other.GetTask() == t.Seen.GetTask() {
				continue
			}
			all = append(all, Finding{Severity: Error, Task: t.label(), Found: fmt.Sprintf("it does not see %s, which answers here: %s", other.GetTask(), cmp.Or(other.GetReason(), other.GetState())),
				Remedy: "check that both were started with the same spec and secret, and that firewalls between their machines let TCP and UDP through to " + other.GetAddress()})
		}
	}
	return all
}

// specs checks that all tasks were started with the same cluster.
func specs(f *Facts) (all []Finding) {
	for i := range f.Tasks {
		t := &f.Tasks[i]
		theirs := t.Seen.GetSpec()
		if theirs == "" || f.Declared == "" || theirs == f.Declared {
			continue
		}
		found := Finding{Severity: Error, Task: t.label(), Found: fmt.Sprintf("it was started with the cluster %s, not with %s", theirs, f.Declared),
			Remedy: "restart the task with the spec of the others"}
		mine, err := spec.Parse(f.Declared)
		other, err2 := spec.Parse(theirs)
		if err == nil && err2 == nil {
			clash := mine.Clash("", other, t.Seen.GetTask())
			if clash == "" {
				continue
			}
			found.Found = "it was started with another cluster spec (here is this command's, there the task's): " + clash
		}
		all = append(all, found)
	}
	return all
}

func versions(f *Facts) []Finding {
	at := map[string][]string{}
	for i := range f.Tasks {
		if p := f.Tasks[i].Serves(); p.GetVersion() != "" {
			at[p.GetVersion()] = append(at[p.GetVersion()], f.Tasks[i].label())
		}
	}
	if len(at) < 2 {
		return nil
	}
	var texts []string
	for version, tasks := range at {
		texts = append(texts, fmt.Sprintf("%s on %s", version, strings.Join(tasks, ", ")))
	}
	slices.Sort(texts)
	return []Finding{{Severity: Warning, Found: "the tasks run different versions: " + strings.Join(texts, "; "), Remedy: "run one version on all tasks"}}
}

// clocks compares the clocks of tasks. A comparison is off by at most half the round trip.
func clocks(f *Facts) []Finding {
	var least, most *Task
	for i := range f.Tasks {
		t := &f.Tasks[i]
		if t.Serves().GetClock() == 0 {
			continue
		}
		if least == nil || t.Skew < least.Skew {
			least = t
		}
		if most == nil || t.Skew > most.Skew {
			most = t
		}
	}
	if least == nil {
		return nil
	}
	const remedy = "keep the machines' clocks right (NTP, chrony): tokens, certificates and times in logs and events go by them"
	off := (most.RoundTrip + least.RoundTrip) / 2
	if apart := most.Skew - least.Skew; apart-off > maxSkew {
		return []Finding{{Severity: Warning, Task: most.label(), Found: fmt.Sprintf("its clock is %v ahead of that of %s", apart.Round(100*time.Millisecond), least.label()), Remedy: remedy}}
	}
	if d := max(most.Skew, -least.Skew); d-off > maxSkew {
		return []Finding{{Severity: Warning, Found: fmt.Sprintf("the tasks' clocks and this machine's are %v apart", d.Round(100*time.Millisecond)), Remedy: remedy}}
	}
	return nil
}

func security(f *Facts) (all []Finding) {
	for i := range f.Tasks {
		if t := &f.Tasks[i]; t.Seen.GetExposed() != "" {
			all = append(all, Finding{Severity: Warning, Task: t.label(), Found: t.Seen.GetExposed(),
				Remedy: "`troupe certs init` makes certificates for all tasks; or let only trusted machines reach the port"})
		}
	}
	return all
}

// certificates checks when the certificates of tasks expire.
func certificates(f *Facts) (all []Finding) {
	for i := range f.Tasks {
		t := &f.Tasks[i]
		if soon := access.ExpiryWarning(t.Serves().GetCertificateFrom(), t.Serves().GetCertificateUntil(), time.Now()); soon != "" {
			all = append(all, Finding{Severity: Warning, Task: t.label(), Found: soon,
				Remedy: "issue new ones and put them in the place of the old (`troupe certs init --renew`): a server reads them without a restart"})
		}
	}
	return all
}

// memory checks limits against the machine, for tasks of this machine, and how full tasks are.
func memory(f *Facts) (all []Finding) {
	limits, processes := int64(0), map[int64]bool{}
	for i := range f.Tasks {
		t := &f.Tasks[i]
		p := t.Serves()
		if limit, used := p.GetMemoryLimit(), p.GetMemoryInUse(); limit > 0 && float64(used) > fullFraction*float64(limit) {
			all = append(all, Finding{Severity: Warning, Task: t.label(), Found: fmt.Sprintf("%s of its limit of %s are in use: steps that need more fail with RESOURCE_EXHAUSTED", bytesize.Text(used), bytesize.Text(limit)),
				Remedy: "see which variables and queues hold it (`troupe status`, `troupe actors`), close sessions that are not needed, or raise --process-memory"})
		}
		if t.Process != nil && !processes[t.Process.PID] && p.GetMemoryLimit() > 0 { // nodes without graphs have none
			processes[t.Process.PID] = true
			limits += p.GetMemoryLimit()
		}
	}
	if m := f.Machine.Memory; m > 0 && len(processes) > 0 && limits > m {
		all = append(all, Finding{Severity: Warning, Found: fmt.Sprintf("the %d processes of the cluster on this machine may take %s together, and it has %s: the system may kill one of them", len(processes), bytesize.Text(limits), bytesize.Text(m)),
			Remedy: fmt.Sprintf("start each with --process-memory %s or less", bytesize.Flag(m/5*4/int64(len(processes))))})
	}
	if m, a := f.Machine.Memory, f.Machine.Available; m > 0 && a >= 0 && float64(a) < (1-fullFraction)*float64(m) {
		all = append(all, Finding{Severity: Warning, Found: fmt.Sprintf("this machine has %s of %s of memory left", bytesize.Text(a), bytesize.Text(m)), Remedy: "stop what is not needed; tasks that are started now fail early"})
	}
	return all
}

func swap(f *Facts) (all []Finding) {
	for i := range f.Tasks {
		if t := &f.Tasks[i]; t.Process != nil && t.Process.Swapped > leastSwapped {
			all = append(all, Finding{Severity: Warning, Task: t.label(), Found: bytesize.Text(t.Process.Swapped) + " of its process are swapped out: steps wait for the disk",
				Remedy: "lower --process-memory, or turn swap off (swapoff) on machines of clusters"})
		}
	}
	if used := f.Machine.SwapTotal - f.Machine.SwapFree; len(all) == 0 && f.Machine.SwapTotal > 0 && float64(used) > float64(f.Machine.SwapTotal)/2 {
		all = append(all, Finding{Severity: Note, Found: fmt.Sprintf("this machine uses %s of %s of swap", bytesize.Text(used), bytesize.Text(f.Machine.SwapTotal)), Remedy: "stop what is not needed, or turn swap off"})
	}
	return all
}

// files checks the limit of open files against the current and the expected connections.
func files(f *Facts) (all []Finding) {
	others := int64(max(len(f.Tasks)-1, 0)) * filesPerTask
	const remedy = "raise it: ulimit -n, LimitNOFILE of systemd, or the container's limit"
	running := false
	for i := range f.Tasks {
		t := &f.Tasks[i]
		if t.Process == nil || t.Process.FileLimit < 0 {
			continue
		}
		running = true
		limit, open := t.Process.FileLimit, t.Process.OpenFiles
		need := filesAtRest + others + t.self().GetTotals().GetClientConnections()
		switch {
		case open >= 0 && float64(open) > fullFraction*float64(limit):
			all = append(all, Finding{Severity: Error, Task: t.label(), Found: fmt.Sprintf("%d of at most %d files are open: new connections are refused soon", open, limit), Remedy: remedy})
		case need > limit:
			all = append(all, Finding{Severity: Warning, Task: t.label(), Found: fmt.Sprintf("it may open %d files, and needs up to %d for %d tasks and %d connections of clients", limit, need, len(f.Tasks), t.self().GetTotals().GetClientConnections()), Remedy: remedy})
		}
	}
	if need := filesAtRest + others; !running && f.Machine.FileLimit >= 0 && need > f.Machine.FileLimit {
		all = append(all, Finding{Severity: Warning, Found: fmt.Sprintf("a task that is started here may open %d files, and needs up to %d for %d tasks", f.Machine.FileLimit, need, len(f.Tasks)), Remedy: remedy})
	}
	return all
}

// processors checks how many processors Go uses, and how many tasks share a machine.
func processors(f *Facts) (all []Finding) {
	m := f.Machine
	if quota := m.Quota; quota > 0 {
		granted := int64(max(math.Ceil(quota), 2)) // Go uses at least two
		for i := range f.Tasks {
			t := &f.Tasks[i]
			if n := t.Serves().GetProcessors(); t.Process != nil && n > granted {
				all = append(all, Finding{Severity: Warning, Task: t.label(), Found: fmt.Sprintf("it computes on %d processors at once, and its control group may use %.3g: the system stops it for the rest of each period", n, quota),
					Remedy: "leave GOMAXPROCS unset, so that it follows the quota, or raise the quota"})
			}
		}
		if int64(m.GOMAXPROCS) > granted && len(all) == 0 {
			all = append(all, Finding{Severity: Warning, Found: fmt.Sprintf("GOMAXPROCS is %d in the environment, and the control group may use %.3g processors", m.GOMAXPROCS, quota), Remedy: "unset GOMAXPROCS: Go follows the quota by itself"})
		}
	}
	local := 0
	for i := range f.Tasks {
		if f.Tasks[i].Local {
			local++
		}
	}
	if m.Processors > 0 && local > tasksPerCore*m.Processors {
		all = append(all, Finding{Severity: Warning, Found: fmt.Sprintf("%d tasks of the cluster are on this machine, which has %d processors: they wait for each other", local, m.Processors),
			Remedy: "give the cluster fewer tasks, or more machines"})
	}
	return all
}

func disk(f *Facts) []Finding {
	m := f.Machine
	const remedy = "set TMPDIR to a directory with room: caches and snapshots of datasets may be written there"
	switch {
	case m.TempError != "":
		return []Finding{{Severity: Warning, Found: fmt.Sprintf("the directory for temporary files, %s, cannot be used: %s", m.TempDir, m.TempError), Remedy: remedy}}
	case m.TempFree >= 0 && m.TempFree < leastTemp:
		return []Finding{{Severity: Warning, Found: fmt.Sprintf("%s has %s left", m.TempDir, bytesize.Text(m.TempFree)), Remedy: remedy}}
	}
	return nil
}

// data finds tasks that refuse changes of durable containers: their disk has no room, does not answer, or has failed.
func data(f *Facts) (all []Finding) {
	for i := range f.Tasks {
		t := &f.Tasks[i]
		if d := t.self().GetData(); d.GetRefusing() != "" {
			all = append(all, Finding{Severity: Error, Task: t.label(), Found: "it refuses what adds to durable containers: " + d.GetRefusing(),
				Remedy: "make room for " + d.GetDirectory() + " or raise --data-limit, and it goes on by itself, as it does when a disk that does not answer is back; if a write has failed, look at the disk and restart the task: it comes back with every step that it has answered"})
		}
	}
	return all
}

func gpu(f *Facts) []Finding {
	if f.Machine.GPUs == 0 {
		return nil
	}
	for i := range f.Tasks {
		t := &f.Tasks[i]
		if t.Process == nil {
			continue
		}
		for _, d := range t.self().GetDevices() {
			if d.GetType() == "GPU" {
				return nil
			}
		}
	}
	found := Finding{Severity: Warning, Found: fmt.Sprintf("this machine has %d NVIDIA cards, and no task here uses one", f.Machine.GPUs), Remedy: "start one with --gpus; its log tells why it takes no card"}
	if !f.Machine.CUDA {
		found.Remedy = "this build of troupe has no CUDA: `make cuda` makes one (docs/gpu.md)"
	}
	return []Finding{found}
}

// proxies checks the variables by which gRPC's clients, including TensorFlow's, choose a proxy, even for the loopback
// interface.
func proxies(f *Facts) []Finding {
	variable := ""
	for _, name := range []string{"grpc_proxy", "https_proxy", "http_proxy"} {
		if f.Env[name] != "" {
			variable = name
			break
		}
	}
	if variable == "" {
		return nil
	}
	excluded := cmp.Or(f.Env["no_grpc_proxy"], f.Env["no_proxy"])
	var through []string
	for i := range f.Tasks {
		host, _, err := spec.SplitAddress(f.Tasks[i].Address)
		if err == nil && !excludes(excluded, host) {
			through = append(through, host)
		}
	}
	slices.Sort(through)
	through = slices.Compact(through)
	if len(through) == 0 {
		return nil
	}
	return []Finding{{Severity: Warning, Found: fmt.Sprintf("%s is set: TensorFlow's client connects to %s through that proxy, even on this machine", variable, strings.Join(through, ", ")),
		Remedy: "unset it for clients of the cluster, or set no_grpc_proxy=" + strings.Join(through, ",")}}
}

// excludes reports whether a no_proxy list has a host. Each entry is a suffix of host names, as in gRPC.
func excludes(list, host string) bool {
	for entry := range strings.SplitSeq(list, ",") {
		if entry = strings.TrimSpace(entry); entry != "" && (entry == "*" || strings.HasSuffix(host, entry)) {
			return true
		}
	}
	return false
}
