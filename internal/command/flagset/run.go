package flagset

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
)

// Run are the flags that say how long sessions live, what they own, how much memory they may take, and how servers stop.
type Run struct {
	flags                                  *pflag.FlagSet
	device, process, step, session, client Size
	dataLimit, compaction                  Size
	lease, startup                         time.Duration
	Drain                                  time.Duration
	Unpinned                               Unpinned
	data, durable                          string
}

// mostMemory is more than machines have, also on their disks.
const mostMemory Size = 1 << 50

// tensors are the bounds of memory for tensors: with less than the least, not even small graphs run.
var tensors = Bounds[Size]{Least: 1 << 20, Most: mostMemory, OrZero: true}

// files are the bounds of the files of durable containers, of which the log alone may take 32 MiB, and rewritten those of what is written to
// rewrite them in a second.
var (
	files     = Bounds[Size]{Least: 64 << 20, Most: mostMemory, OrZero: true}
	rewritten = Bounds[Size]{Least: 1 << 20, Most: mostMemory, OrZero: true}
)

// Add adds the flags.
func (f *Run) Add(flags *pflag.FlagSet) {
	f.flags = flags
	Bytes(flags, &f.device, "memory-limit", tensors, "most bytes of tensors on a device, such as 4GiB (0: what the machine has)")
	Bytes(flags, &f.process, "process-memory", Bounds[Size]{Least: troupe.LeastProcessMemory, Most: mostMemory, OrZero: true}, "most bytes that may be alive in the process (0: four fifths of the machine's memory, or of the control group's limit, which leaves at least 96 MiB)")
	Bytes(flags, &f.step, "step-memory", tensors, "most bytes of host memory that a step may take on a task (0: no limit of its own)")
	Bytes(flags, &f.session, "session-memory", tensors, "most bytes of host memory that a client's session may take on a task (0: no limit of its own)")
	Bytes(flags, &f.client, "client-memory", tensors, "most bytes of host memory that all sessions of a client may take on a task (0: three quarters of --process-memory)")
	Duration(flags, &f.lease, "lease", troupe.DefaultLease, Wait, "how long a session lives after its client's connection has ended, unless memory is short: then it is 30s at most (a week at least if the client had made no call for half an hour, since gRPC closes such connections)")
	Duration(flags, &f.startup, "startup-timeout", troupe.DefaultStartup, Wait, "how long after the server's start what needs a task that has never been seen waits for it")
	flags.Var(&f.Unpinned, "unpinned", "whose the variables, queues and readers are that ask for no device: cluster (all tasks share them by their names) or task "+
		"(each task has its own, as TensorFlow's servers do; the default with --server-def)")
	flags.StringVar(&f.data, "data", "", "directory for what outlives the process, with a directory of its own for each task")
	flags.StringVar(&f.durable, "durable", "", "containers whose resources, such as variables and queues, outlive the process, as patterns with commas between them, such as jobs,my_problem_*; an empty pattern is the default container; variables of a pattern with :snapshot=30s are written at that interval, not at every step; needs --data")
	Bytes(flags, &f.dataLimit, "data-limit", files, "most bytes of the files in a task's directory of --data, such as 10GiB: what would make them larger fails, while reads and removals go on (0: what the disk has)")
	Bytes(flags, &f.compaction, "data-compaction-rate", rewritten, "most bytes a second that are written to rewrite these files without what is not there any more, unless steps would wait for it (0: no limit)")
	Duration(flags, &f.Drain, "drain", 5*time.Second, UpTo(Longest), "how long running steps may continue when the server is stopped")
}

// Process returns the most bytes that may be alive in the process; 0 is the default.
func (f *Run) Process() int64 { return int64(f.process) }

// Options returns the server's options from the flags.
func (f *Run) Options() []troupe.Option {
	var patterns []string
	if f.flags.Changed("durable") {
		patterns = strings.Split(f.durable, ",")
	}
	all := given(f.flags,
		flagOption{"lease", troupe.WithLease(f.lease)},
		flagOption{"startup-timeout", troupe.WithStartup(f.startup)},
		flagOption{"data", troupe.WithDurable(f.data, patterns...)},
		flagOption{"durable", troupe.WithDurable(f.data, patterns...)},
		flagOption{"data-limit", troupe.WithDataLimit(int64(f.dataLimit))},
		flagOption{"data-compaction-rate", troupe.WithCompactionRate(int64(f.compaction))},
		flagOption{"memory-limit", troupe.WithMemoryLimit(int64(f.device))},
		flagOption{"process-memory", troupe.WithProcessMemory(int64(f.process))},
		flagOption{"step-memory", troupe.WithStepMemory(int64(f.step))},
		flagOption{"session-memory", troupe.WithSessionMemory(int64(f.session))},
		flagOption{"client-memory", troupe.WithClientMemory(int64(f.client))})
	if f.Unpinned != "" {
		all = append(all, troupe.WithOwnResources(f.Unpinned == UnpinnedTask))
	}
	return all
}

// Unpinned is the value of the flag --unpinned: cluster, task, or empty for the default.
type Unpinned string

// UnpinnedTask means that each task has resources of its own.
const UnpinnedTask Unpinned = "task"

// String returns the value.
func (u *Unpinned) String() string { return string(*u) }

// Type returns what help calls the flag's value.
func (u *Unpinned) Type() string { return "cluster|task" }

// Set reads the flag's value.
func (u *Unpinned) Set(text string) error {
	if _, err := actors.ParseUnpinned(text); err != nil {
		return errors.New(status.From(err).Message)
	}
	*u = Unpinned(text)
	return nil
}
