package spec

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
)

// SlurmPort is the default port of a node's first task in a cluster that Slurm declares: that of TensorFlow's SlurmClusterResolver.
const SlurmPort = 8888

// MaxSlurmTasks is the maximum number of tasks of a Slurm step. A short node list can stand for many names, so sizes are checked before
// names are made.
const MaxSlurmTasks = 1 << 15

// SlurmRest is the number of tasks of a job that has all tasks of the step that no other job has.
const SlurmRest = -1

const (
	maxSlurmText = 1 << 20 // bytes of a variable
	maxSlurmHost = 255     // bytes of a host's name, as in DNS
)

// Variables that Slurm sets for each process of a step.
const (
	slurmProcess = "SLURM_PROCID"
	slurmNodes   = "SLURM_STEP_NODELIST"
	slurmCounts  = "SLURM_STEP_TASKS_PER_NODE"
	slurmTasks   = "SLURM_STEP_NUM_TASKS"
	slurmNode    = "SLURMD_NODENAME"
	slurmLocal   = "SLURM_LOCALID"
)

// FromSlurm returns the cluster of a Slurm step, and which of its tasks this process is, from the variables that srun sets for each
// process. It declares the same as TensorFlow's SlurmClusterResolver: nodes are sorted by name; on each node, tasks have ports that count
// from port; and jobs, sorted by name, take the tasks in this order. If no step's nodes are set, it reads those of the allocation.
//
// The process is a task on its own node. The resolver instead uses the process's rank, SLURM_PROCID, as its position in the order: if Slurm
// does not list nodes by name, as in n[9-10], that is a task of another node.
//
// jobs has the number of tasks of each job. Together they must have all tasks of the step, and one may have [SlurmRest]. Without jobs, all
// tasks belong to the job worker. lookup is os.LookupEnv, or a similar function. Every error is INVALID_ARGUMENT and names the variable and
// its value.
func FromSlurm(lookup func(name string) (string, bool), jobs map[string]int, port int) (*Spec, Task, error) {
	none := func(err error) (*Spec, Task, error) { return nil, Task{}, err }
	v := slurm{lookup, slurmNodes, slurmCounts, slurmTasks}
	if _, ok := lookup(slurmNodes); !ok {
		if _, ok := lookup("SLURM_JOB_NODELIST"); ok {
			v = slurm{lookup, "SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE", "SLURM_NTASKS"}
		}
	}
	rank, err := v.number(slurmProcess)
	if err != nil {
		return none(err)
	}
	nodes, total, err := v.nodes(port)
	if err != nil {
		return none(err)
	}
	if len(jobs) == 0 {
		tasks, err := v.number(v.tasksName)
		if err != nil {
			return none(err)
		}
		if tasks != total {
			return none(status.InvalidArgumentf("%s is %d, but the nodes of the step have %d tasks together.", v.tasksName, tasks, total))
		}
		jobs = map[string]int{"worker": total}
	} else if jobs, err = v.deal(jobs, total); err != nil {
		return none(err)
	}
	if rank >= total {
		return none(status.InvalidArgumentf("%s is %d: the step has the tasks 0 to %d.", slurmProcess, rank, total-1))
	}
	own, err := v.own(nodes, rank)
	if err != nil {
		return none(err)
	}
	slices.SortFunc(nodes, func(a, b slurmHost) int { return strings.Compare(a.name, b.name) })
	addresses := make([]string, 0, total)
	for _, n := range nodes {
		for task := range n.tasks {
			addresses = append(addresses, n.name+":"+strconv.Itoa(port+task))
		}
	}
	tasks := map[string]map[int]string{}
	next := 0
	for _, job := range slices.Sorted(maps.Keys(jobs)) {
		tasks[job] = map[int]string{}
		for index := range jobs[job] {
			tasks[job][index] = addresses[next]
			next++
		}
	}
	s, err := New(tasks)
	if err != nil {
		return none(err)
	}
	// All tasks have an address, and the nodes' names differ.
	self, _ := s.ByAddress(own.name + ":" + strconv.Itoa(port+own.tasks))
	return s, self, nil
}

// slurmHost is a node with its number of tasks, or with the number of one task on it.
type slurmHost struct {
	name  string
	tasks int
}

// own returns the process's node and its number on it. Without the variables for these, it assumes that processes are numbered node by
// node, which is srun's default.
func (v slurm) own(nodes []slurmHost, rank int) (slurmHost, error) {
	name, named := v.lookup(slurmNode)
	if _, ok := v.lookup(slurmLocal); ok && named {
		if i := slices.IndexFunc(nodes, func(n slurmHost) bool { return n.name == name }); i >= 0 {
			local, err := v.number(slurmLocal)
			if err == nil && local >= nodes[i].tasks {
				err = status.InvalidArgumentf("%s is %d, but %s has %d tasks on %s.", slurmLocal, local, v.countsName, nodes[i].tasks, name)
			}
			return slurmHost{name, local}, err
		}
	}
	node := 0
	for rank >= nodes[node].tasks {
		rank -= nodes[node].tasks
		node++
	}
	return slurmHost{nodes[node].name, rank}, nil
}

// slurm reads variables. The names are those of a step, or of an allocation.
type slurm struct {
	lookup                           func(name string) (string, bool)
	nodesName, countsName, tasksName string
}

func (v slurm) text(name string) (string, error) {
	text, ok := v.lookup(name)
	switch {
	case !ok:
		return "", status.InvalidArgumentf("%s is not in the environment: start the process with srun, which sets it for each task of a step.", name)
	case len(text) > maxSlurmText:
		return "", status.InvalidArgumentf("%s has %d bytes, more than %d: %.100q…", name, len(text), maxSlurmText, text)
	}
	return text, nil
}

// malformed returns the error for a variable with the given text.
func malformed(name, text, format string, args ...any) error {
	return status.InvalidArgumentf("Could not interpret %s, which is %s: %s.", name, quoted(text), fmt.Sprintf(format, args...))
}

// quoted returns a text in quotes, truncated if it is long.
func quoted(text string) string {
	const most = 200
	if len(text) <= most {
		return strconv.Quote(text)
	}
	return strconv.Quote(text[:most]) + "…"
}

func (v slurm) number(name string) (int, error) {
	text, err := v.text(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, malformed(name, text, "it is not a number from 0 to %d", math.MaxInt32)
	}
	return int(n), nil
}

// nodes reads how many tasks each node has, in Slurm's order, and the total.
func (v slurm) nodes(port int) (nodes []slurmHost, total int, err error) {
	list, err := v.text(v.nodesName)
	if err != nil {
		return nil, 0, err
	}
	hosts, err := expandHosts(list, MaxSlurmTasks)
	if err != nil {
		return nil, 0, malformed(v.nodesName, list, "%v", err)
	}
	text, err := v.text(v.countsName)
	if err != nil {
		return nil, 0, err
	}
	counts, err := expandCounts(text, MaxSlurmTasks)
	if err != nil {
		return nil, 0, malformed(v.countsName, text, "%v", err)
	}
	if len(counts) != len(hosts) {
		return nil, 0, malformed(v.countsName, text, "it is about %d nodes, and %s lists %d, %s", len(counts), v.nodesName, len(hosts), quoted(list))
	}
	seen := make(map[string]bool, len(hosts))
	for i, host := range hosts {
		if seen[host] {
			return nil, 0, malformed(v.nodesName, list, "it lists %s twice", host)
		}
		seen[host] = true
		nodes = append(nodes, slurmHost{host, counts[i]})
		total += counts[i]
		if last := port + counts[i] - 1; port < 1 || last > math.MaxUint16 {
			return nil, 0, status.InvalidArgumentf("The %d tasks of the node %s would have the ports %d to %d, which are not in [1, %d].", counts[i], host, port, last, math.MaxUint16)
		}
	}
	return nodes, total, nil
}

// deal replaces SlurmRest by the number of remaining tasks, and checks that the jobs have all tasks of the step.
func (v slurm) deal(jobs map[string]int, total int) (map[string]int, error) {
	jobs = maps.Clone(jobs)
	sum, rest := 0, ""
	for _, job := range slices.Sorted(maps.Keys(jobs)) {
		tasks := jobs[job]
		switch {
		case tasks == SlurmRest && rest != "":
			return nil, status.InvalidArgumentf("The jobs %q and %q cannot both have the rest of the tasks.", rest, job)
		case tasks == SlurmRest:
			rest = job
		case tasks < 0 || tasks > MaxSlurmTasks:
			return nil, status.InvalidArgumentf("The job %q has %d tasks, which are not in [0, %d].", job, tasks, MaxSlurmTasks)
		default:
			sum += tasks
		}
	}
	if sum == total || rest != "" && sum < total {
		if rest != "" {
			jobs[rest] = total - sum
		}
		return jobs, nil
	}
	text, err := v.text(v.countsName)
	if err != nil {
		return nil, err
	}
	return nil, status.InvalidArgumentf("The jobs have %d tasks together, and the step has %d: %s is %s. Start as many tasks as the jobs have (srun --ntasks).", sum, total, v.countsName, quoted(text))
}

// expandHosts returns the hosts of a Slurm node list in their order: rack[1-2]n[01-03,7],login stands for rack1n01, rack1n02, rack1n03,
// rack1n7, rack2n01 and so on, and login. A number has as many digits as the first of its range. most is the maximum number of hosts. The
// error says what is wrong with the list, and does not repeat it.
func expandHosts(list string, most int) ([]string, error) {
	var all []string
	for part, err := range listed(list) {
		if err != nil {
			return nil, err
		}
		all, err = expandHost(all, part, most)
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// listed yields the parts between commas outside brackets.
func listed(list string) func(yield func(string, error) bool) {
	return func(yield func(string, error) bool) {
		from, inside := 0, false
		for i := range len(list) {
			switch c := list[i]; {
			case c == '[' && inside:
				yield("", fmt.Errorf("a bracket is opened inside brackets at byte %d", i))
				return
			case c == ']' && !inside:
				yield("", fmt.Errorf("a bracket is closed at byte %d that was not opened", i))
				return
			case c == '[', c == ']':
				inside = !inside
			case c == ',' && !inside:
				if !yield(list[from:i], nil) {
					return
				}
				from = i + 1
			}
		}
		if inside {
			yield("", fmt.Errorf("the bracket at byte %d is not closed", strings.LastIndexByte(list, '[')))
			return
		}
		yield(list[from:], nil)
	}
}

// span is a range of numbers with a number of digits.
type span struct{ first, last, digits int }

// expandHost appends the hosts of one part of a node list to all. The part's brackets are balanced.
func expandHost(all []string, part string, most int) ([]string, error) {
	// The text before each bracket, and the bracket's contents.
	var before []string
	var spans [][]span
	count, rest := 1, part
	length := 0
	for {
		head, tail, ok := strings.Cut(rest, "[")
		length += len(head)
		if !ok {
			rest = head
			break
		}
		ranges, after, _ := strings.Cut(tail, "]")
		in, numbers, widest, err := parseSpans(ranges, most)
		if err != nil {
			return nil, err
		}
		// Both are at most most, so the product does not overflow.
		if count *= numbers; count > most {
			return nil, fmt.Errorf("%s stands for more than %d hosts", quoted(part), most)
		}
		before, spans, rest = append(before, head), append(spans, in), after
		length += widest
	}
	switch {
	case part == "":
		return nil, errors.New("a name is empty")
	case length > maxSlurmHost:
		return nil, fmt.Errorf("%s stands for names of more than %d bytes", quoted(part), maxSlurmHost)
	case len(all)+count > most:
		return nil, fmt.Errorf("it has more than %d hosts", most)
	}
	names := []string{""}
	for i, head := range before {
		var longer []string
		for _, name := range names {
			for _, s := range spans[i] {
				for n := s.first; n <= s.last; n++ {
					longer = append(longer, fmt.Sprintf("%s%s%0*d", name, head, s.digits, n))
				}
			}
		}
		names = longer
	}
	for _, name := range names {
		all = append(all, name+rest)
	}
	return all, nil
}

// parseSpans parses the contents of brackets. widest is the maximum number of digits of a number.
func parseSpans(text string, most int) (all []span, count, widest int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		low, high, ok := strings.Cut(part, "-")
		if !ok {
			high = low
		}
		first, err := strconv.ParseUint(low, 10, 31)
		if err != nil {
			return nil, 0, 0, fmt.Errorf("%s in brackets is not a number or a range of numbers up to %d", quoted(part), math.MaxInt32)
		}
		last, err := strconv.ParseUint(high, 10, 31)
		switch {
		case err != nil:
			return nil, 0, 0, fmt.Errorf("%s in brackets is not a number or a range of numbers up to %d", quoted(part), math.MaxInt32)
		case last < first:
			return nil, 0, 0, fmt.Errorf("the range %s ends before it begins", quoted(part))
		case last-first >= uint64(most-count):
			return nil, 0, 0, fmt.Errorf("%s in brackets are more than %d numbers", quoted(text), most)
		}
		count += int(last-first) + 1
		widest = max(widest, len(low), len(strconv.FormatUint(last, 10)))
		all = append(all, span{int(first), int(last), len(low)})
	}
	return all, count, widest, nil
}

// repeated matches a number of tasks, and optionally the number of nodes that it applies to.
var repeated = regexp.MustCompile(`^([0-9]+)(?:\(x([0-9]+)\))?$`)

// expandCounts returns the numbers of tasks of nodes: 2(x3),1 stands for 2, 2, 2, 1. most is the maximum number of nodes, and of tasks.
func expandCounts(text string, most int) ([]int, error) {
	var all []int
	total := 0
	for part := range strings.SplitSeq(text, ",") {
		m := repeated.FindStringSubmatch(part)
		if m == nil {
			return nil, fmt.Errorf("%s is not a number of tasks, such as 2, or 2(x3) for three nodes", quoted(part))
		}
		times := "1"
		if m[2] != "" {
			times = m[2]
		}
		tasks, err := strconv.ParseUint(m[1], 10, 31)
		if err != nil {
			return nil, fmt.Errorf("%s are more than %d tasks", quoted(part), most)
		}
		nodes, err := strconv.ParseUint(times, 10, 31)
		switch {
		case err != nil || nodes > uint64(most-len(all)):
			return nil, fmt.Errorf("it is about more than %d nodes", most)
		case nodes == 0 || tasks == 0:
			return nil, fmt.Errorf("%s stands for no task", quoted(part))
		case tasks*nodes > uint64(most-total):
			return nil, fmt.Errorf("they are more than %d tasks", most)
		}
		total += int(tasks * nodes)
		all = append(all, slices.Repeat([]int{int(tasks)}, int(nodes))...)
	}
	return all, nil
}
