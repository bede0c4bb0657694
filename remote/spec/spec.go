// Package spec is the declaration of a cluster: its jobs, their tasks, and the single address of each task. It is pure: it parses, checks,
// compares and prints, and never uses the network.
package spec

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
)

// Task is one task of a cluster.
type Task struct {
	Job     string
	Index   int
	Address string // host:port, exactly as declared
}

// Name returns the task's full name, such as /job:ps/replica:0/task:0.
func (t Task) Name() string { return TaskName(t.Job, t.Index) }

// String returns the name and the address, for messages to people.
func (t Task) String() string { return t.Name() + " (" + t.Address + ")" }

// TaskName returns the full name of a task, such as /job:ps/replica:0/task:0. A task has only one replica, as in every TensorFlow cluster
// since its first release.
func TaskName(job string, index int) string {
	return "/job:" + job + "/replica:0/task:" + strconv.Itoa(index)
}

// ParseTaskName splits a task's name: /job:worker/replica:0/task:1, in which the replica may be omitted, or worker:1.
func ParseTaskName(name string) (job string, index int, err error) {
	bad := func() (string, int, error) {
		return "", 0, status.InvalidArgumentf("Could not interpret %q as a task name, such as /job:worker/replica:0/task:0 or worker:0.", name)
	}
	if job, digits, short := strings.Cut(name, ":"); short && name[0] != '/' {
		index, ok := parseIndex(digits)
		if !ok || !validJob(job) {
			return bad()
		}
		return job, index, nil
	}
	rest, ok := strings.CutPrefix(name, "/job:")
	if !ok {
		return bad()
	}
	job, rest, ok = strings.Cut(rest, "/")
	if !ok || !validJob(job) {
		return bad()
	}
	rest = strings.TrimPrefix(rest, "replica:0/")
	digits, ok := strings.CutPrefix(rest, "task:")
	if !ok {
		return bad()
	}
	index, ok = parseIndex(digits)
	if !ok {
		return bad()
	}
	return job, index, nil
}

// Spec is a checked cluster declaration. It is immutable and safe for concurrent use.
type Spec struct {
	tasks  []Task // by job, then index
	byName map[string]Task
	byAddr map[string]Task
	hash   string
}

// New checks jobs (job name → task index → host:port) and returns the declaration. Indices need not be dense. A job without tasks, such as
// ps in a cluster without parameter servers, counts as absent. Every error is INVALID_ARGUMENT and names the job, the task or the address.
func New(jobs map[string]map[int]string) (*Spec, error) {
	s := &Spec{byName: map[string]Task{}, byAddr: map[string]Task{}}
	for _, job := range slices.Sorted(maps.Keys(jobs)) {
		if !validJob(job) {
			return nil, status.InvalidArgumentf("%q is not a job name: a letter followed by letters, digits and underscores is one.", job)
		}
		for _, index := range slices.Sorted(maps.Keys(jobs[job])) {
			if err := s.add(Task{Job: job, Index: index, Address: jobs[job][index]}); err != nil {
				return nil, err
			}
		}
	}
	if len(s.tasks) == 0 {
		return nil, status.InvalidArgumentf("The cluster spec is empty: it must define at least one job with a task.")
	}
	for _, t := range s.tasks {
		// The system can choose the port only in a cluster of one, where nobody else needs to know the address.
		if _, port, _ := SplitAddress(t.Address); port == 0 && len(s.tasks) > 1 {
			return nil, status.InvalidArgumentf("Task %v has port 0, which only the task of a cluster of one may have.", t)
		}
	}
	s.hash = s.digest()
	return s, nil
}

func (s *Spec) add(t Task) error {
	if t.Index < 0 || t.Index > math.MaxInt32 {
		return status.InvalidArgumentf("Task index %d in job %q is out of range: it must be in [0, %d].", t.Index, t.Job, math.MaxInt32)
	}
	if _, _, err := SplitAddress(t.Address); err != nil {
		return status.InvalidArgumentf("%v It is the address of %s.", err, t.Name())
	}
	if other, ok := s.byAddr[t.Address]; ok {
		return status.InvalidArgumentf("Duplicate address %q in the cluster spec: %s and %s both have it.", t.Address, other.Name(), t.Name())
	}
	s.tasks = append(s.tasks, t)
	s.byAddr[t.Address] = t
	s.byName[t.Name()] = t
	return nil
}

// digest covers every field with its length, so no two declarations have the same encoding.
func (s *Spec) digest() string {
	h := sha256.New()
	var b []byte
	for _, t := range s.tasks {
		b = binary.AppendUvarint(b[:0], uint64(len(t.Job)))
		b = append(b, t.Job...)
		b = binary.AppendUvarint(b, uint64(t.Index))
		b = binary.AppendUvarint(b, uint64(len(t.Address)))
		b = append(b, t.Address...)
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Hash returns 32 hexadecimal digits that two specs share only if they are equal, in whatever form and order they were written.
func (s *Spec) Hash() string { return s.hash }

// Len returns the number of tasks.
func (s *Spec) Len() int { return len(s.tasks) }

// Tasks returns all tasks, by job name and then index.
func (s *Spec) Tasks() []Task { return slices.Clone(s.tasks) }

// Jobs returns the job names, sorted.
func (s *Spec) Jobs() []string {
	var jobs []string
	for _, t := range s.tasks {
		if len(jobs) == 0 || jobs[len(jobs)-1] != t.Job {
			jobs = append(jobs, t.Job)
		}
	}
	return jobs
}

// Task returns a task. The error says whether the job or the index is unknown.
func (s *Spec) Task(job string, index int) (Task, error) {
	if t, ok := s.byName[TaskName(job, index)]; ok {
		return t, nil
	}
	if slices.Contains(s.Jobs(), job) {
		return Task{}, status.InvalidArgumentf("Task %d was not defined in job %q", index, job)
	}
	return Task{}, status.InvalidArgumentf("Job %q was not defined in cluster, whose jobs are %s", job, strings.Join(s.Jobs(), ", "))
}

// ByName returns the task with the given full name.
func (s *Spec) ByName(name string) (Task, bool) { t, ok := s.byName[name]; return t, ok }

// ByAddress returns the task with the given address, exactly as declared.
func (s *Spec) ByAddress(address string) (Task, bool) { t, ok := s.byAddr[address]; return t, ok }

// WithAddress returns the spec with another address for one task. A server whose port the system chose (port 0) uses it once it knows the
// port.
func (s *Spec) WithAddress(job string, index int, address string) (*Spec, error) {
	if _, err := s.Task(job, index); err != nil {
		return nil, err
	}
	jobs := s.jobs()
	jobs[job][index] = address
	return New(jobs)
}

func (s *Spec) jobs() map[string]map[int]string {
	jobs := map[string]map[int]string{}
	for _, t := range s.tasks {
		if jobs[t.Job] == nil {
			jobs[t.Job] = map[int]string{}
		}
		jobs[t.Job][t.Index] = t.Address
	}
	return jobs
}

// Equal reports whether two specs declare the same cluster.
func (s *Spec) Equal(o *Spec) bool { return s.hash == o.hash }

// Clash returns why a task with this spec and one with another spec cannot be in one cluster, in words that call the specs here and there;
// it is empty if they can. The two must agree on the address of each task that both declare. For their own entries only the ports are
// compared: a process may call its own machine by a name that is valid only there, such as localhost. One spec may be a part of the other,
// like that of a worker that declares only itself and the parameter servers. Two such workers, neither of which declares the other, each
// declare a part of what a third task declares.
//
// self and other are the full names of the two tasks.
func (s *Spec) Clash(self string, there *Spec, other string) string {
	if s.hash == there.hash {
		return ""
	}
	own := func(t Task) bool { return t.Name() == self || t.Name() == other }
	var only [2]string // the first task that just one of them declares: here, and there
	for _, a := range s.tasks {
		b, far := there.byName[a.Name()]
		if far && a.Address != b.Address && !(own(a) && SamePort(a.Address, b.Address)) {
			return fmt.Sprintf("%s is at %s here and at %s there", a.Name(), a.Address, b.Address)
		}
		// Both may call themselves localhost, or by one name that each machine resolves to itself.
		alike := func(b Task) bool {
			return a.Name() == self && b.Name() == other || (a.Name() == self || b.Name() == other) && Local(a.Address)
		}
		if b, taken := there.byAddr[a.Address]; taken && a.Name() != b.Name() && !alike(b) {
			return fmt.Sprintf("%s is the address of %s here and of %s there", a.Address, a.Name(), b.Name())
		}
		if !far && only[0] == "" {
			only[0] = fmt.Sprintf("%s is at %s here and does not exist there", a.Name(), a.Address)
		}
	}
	for _, b := range there.tasks {
		if _, here := s.byName[b.Name()]; !here {
			only[1] = fmt.Sprintf("%s does not exist here and is at %s there", b.Name(), b.Address)
			break
		}
	}
	_, knows := s.byName[other]
	_, known := there.byName[self]
	if only[0] != "" && only[1] != "" && (knows || known) {
		return only[0] + ", while " + only[1]
	}
	return ""
}

// Local reports whether an address means the own machine wherever it is used: its host is localhost, a loopback address, or the unspecified
// one, which stands for all interfaces.
func Local(address string) bool {
	host, _, err := SplitAddress(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// SamePort reports whether two addresses have the same port.
func SamePort(a, b string) bool {
	return a[strings.LastIndexByte(a, ':')+1:] == b[strings.LastIndexByte(b, ':')+1:]
}

// validJob follows the job names that TensorFlow's device names allow.
func validJob(job string) bool {
	for i, c := range []byte(job) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return job != ""
}

func parseIndex(digits string) (int, bool) {
	n, err := strconv.ParseUint(digits, 10, 31)
	return int(n), err == nil && digits == strconv.FormatUint(n, 10)
}

// SplitAddress splits host:port. The host may be a name, an IPv4 address or an IPv6 address in brackets (which are removed from the
// result). Port 0 means that the system chooses.
func SplitAddress(address string) (host string, port int, err error) {
	bad := func(why string) (string, int, error) {
		return "", 0, status.InvalidArgumentf("Could not interpret %q as a host-port pair: %s.", address, why)
	}
	if scheme, _, ok := strings.Cut(address, "://"); ok {
		return bad(fmt.Sprintf("leave out %q", scheme+"://"))
	}
	i := strings.LastIndexByte(address, ':')
	if i < 0 {
		return bad("it has no port")
	}
	host, digits := address[:i], address[i+1:]
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
		if !strings.Contains(host, ":") {
			return bad("only an IPv6 address stands in brackets")
		}
	} else if strings.Contains(host, ":") {
		return bad("an IPv6 address must stand in brackets")
	}
	if host == "" {
		return bad("it has no host")
	}
	for _, c := range []byte(host) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte("/,;=@[]\"'|", c) >= 0 {
			return bad(fmt.Sprintf("%q cannot be part of a host", c))
		}
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	switch {
	case err != nil || digits != strconv.FormatUint(n, 10):
		return bad(fmt.Sprintf("%q is not a port", digits))
	case n > math.MaxUint16:
		return bad(fmt.Sprintf("port %d is not in [0, 65535]", n))
	}
	return host, int(n), nil
}
