// Package spec is the declaration of a cluster: its jobs, their tasks, and the one address of each task. It is
// pure: it parses, checks, compares and prints, and never touches the network.
package spec

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
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

// Name is the task's full name, such as /job:ps/replica:0/task:0.
func (t Task) Name() string { return TaskName(t.Job, t.Index) }

// String is the name and the address, for messages to people.
func (t Task) String() string { return t.Name() + " (" + t.Address + ")" }

// TaskName is the full name of a task, such as /job:ps/replica:0/task:0. A task has one
// replica only, as in every TensorFlow cluster since its first release.
func TaskName(job string, index int) string {
	return "/job:" + job + "/replica:0/task:" + strconv.Itoa(index)
}

// ParseTaskName takes a full task name apart. The replica may be left out.
func ParseTaskName(name string) (job string, index int, err error) {
	bad := func() (string, int, error) {
		return "", 0, status.InvalidArgumentf("Could not interpret %q as a task name, such as /job:worker/replica:0/task:0.", name)
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

// New checks jobs (job name → task index → host:port) and makes the declaration. Indices need
// not be dense. A job without tasks, such as ps in a cluster that needs no parameter server, is as good as
// one that is not there. Every error is INVALID_ARGUMENT and names the job, the task or the address.
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
		// Only a cluster of one can let the system choose: nobody else must know the address.
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

// digest covers every field with its length, so that no two declarations share a text.
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

// Hash is 32 hexadecimal digits that two specs share only if they are equal, in whatever form
// and order they were written.
func (s *Spec) Hash() string { return s.hash }

// Len is the number of tasks.
func (s *Spec) Len() int { return len(s.tasks) }

// Tasks are all tasks, by job name and then index.
func (s *Spec) Tasks() []Task { return slices.Clone(s.tasks) }

// Jobs are the job names, sorted.
func (s *Spec) Jobs() []string {
	var jobs []string
	for _, t := range s.tasks {
		if len(jobs) == 0 || jobs[len(jobs)-1] != t.Job {
			jobs = append(jobs, t.Job)
		}
	}
	return jobs
}

// Task finds a task. The error tells whether the job or the index is unknown.
func (s *Spec) Task(job string, index int) (Task, error) {
	if t, ok := s.byName[TaskName(job, index)]; ok {
		return t, nil
	}
	if slices.Contains(s.Jobs(), job) {
		return Task{}, status.InvalidArgumentf("Task %d was not defined in job %q", index, job)
	}
	return Task{}, status.InvalidArgumentf("Job %q was not defined in cluster", job)
}

// ByName finds a task by its full name.
func (s *Spec) ByName(name string) (Task, bool) { t, ok := s.byName[name]; return t, ok }

// ByAddress finds a task by its address, exactly as declared.
func (s *Spec) ByAddress(address string) (Task, bool) { t, ok := s.byAddr[address]; return t, ok }

// WithAddress is the spec with another address for one task: what a server that let the system
// choose its port (port 0) makes of its declaration once it knows the port.
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

// Equal tells whether two specs declare the same cluster.
func (s *Spec) Equal(o *Spec) bool { return s.hash == o.hash }

// Diff tells people the first difference between this spec and another one, in words that
// call them here and there; it is empty for equal specs.
func (s *Spec) Diff(there *Spec) string {
	all := append(s.Tasks(), there.tasks...)
	slices.SortStableFunc(all, func(a, b Task) int {
		return cmp.Or(strings.Compare(a.Job, b.Job), cmp.Compare(a.Index, b.Index))
	})
	for _, t := range all {
		a, here := s.byName[t.Name()]
		b, far := there.byName[t.Name()]
		switch {
		case here && !far:
			return fmt.Sprintf("%s is at %s here and does not exist there", t.Name(), a.Address)
		case far && !here:
			return fmt.Sprintf("%s does not exist here and is at %s there", t.Name(), b.Address)
		case a.Address != b.Address:
			return fmt.Sprintf("%s is at %s here and at %s there", t.Name(), a.Address, b.Address)
		}
	}
	return ""
}

// validJob follows the job names that TensorFlow's device names can hold.
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

// SplitAddress takes host:port apart. The host may be a name, an IPv4 address or an IPv6
// address in brackets (which the result lacks). Port 0 stands for one that the system chooses.
func SplitAddress(address string) (host string, port int, err error) {
	bad := func(why string) (string, int, error) {
		return "", 0, status.InvalidArgumentf("Could not interpret %q as a host-port pair: %s.", address, why)
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
