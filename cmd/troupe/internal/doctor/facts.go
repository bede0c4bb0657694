package doctor

import (
	"net/netip"
	"time"

	"github.com/troupe-run/troupe/internal/view"
)

// Facts are the input of the checks.
type Facts struct {
	// Declared is the cluster spec as text, empty if none is known. Malformed is why a declaration cannot be used.
	Declared  string
	Malformed string
	// Self is the task that is to run on this machine; empty if none was named.
	Self  string
	Tasks []Task
	// Machine is the machine that the command runs on.
	Machine Machine
	// Env has the environment variables that clients and servers read. Unset ones are absent.
	Env map[string]string
	// Version is the command's own.
	Version string
}

// Task is a declared task, or a server whose cluster is not known: then Name is empty.
type Task struct {
	Name, Address string
	// IPs are the addresses of its host. LookupError is why there are none.
	IPs         []netip.Addr
	LookupError string
	// Local reports whether one of the IPs belongs to this machine.
	Local bool
	// TCP and UDP are how the port answers. UDP is not tried unless a Troupe server with other tasks answers TCP, nor if
	// the tasks have a secret: with it they answer no packet of this command.
	TCP, UDP Probe
	// Answers is what serves at the address.
	Answers Answer
	// Why is the error of the last call that was made to determine Answers.
	Why string
	// Seen is what a Troupe server reports about itself and other tasks.
	Seen *view.Cluster
	// RoundTrip is the time of a call that computes nothing, and Skew how far the task's clock is ahead of this
	// machine's, to within half a round trip.
	RoundTrip, Skew time.Duration
	// Process is the task's process, if it runs on this machine and its files can be read.
	Process *Process
}

// self returns the task's view of itself, or nil if there is none.
func (t *Task) self() *view.Task {
	for _, s := range t.Seen.GetTasks() {
		if s.GetTask() == t.Seen.GetTask() {
			return s
		}
	}
	return nil
}

// Serves returns the process that serves the task, as it reported itself, or nil if it did not.
func (t *Task) Serves() *view.Process { return t.self().GetProcess() }

// label returns the task's name for people.
func (t *Task) label() string {
	if t.Name == "" {
		return t.Address
	}
	return t.Name
}

// Probe is how a port answered.
type Probe struct {
	Outcome   Outcome
	Error     string
	RoundTrip time.Duration
}

// Outcome is the result of an attempt to reach a port.
type Outcome string

// Outcomes.
const (
	NotTried    Outcome = ""
	Answered    Outcome = "answered"
	Refused     Outcome = "refused"
	TimedOut    Outcome = "timed out"
	Unreachable Outcome = "unreachable"
)

// Answer is what serves at an address.
type Answer string

// Answers.
const (
	Nothing      Answer = ""
	Troupe       Answer = "troupe"
	OlderTroupe  Answer = "troupe, older"
	TensorFlow   Answer = "tensorflow"
	Unauthorized Answer = "refuses this client"
	NoTLS        Answer = "without TLS"
	Silent       Answer = "silent"
	Other        Answer = "other"
)

// Machine is what the system reports about a machine. Unknown numbers are -1.
type Machine struct {
	Host       string
	Processors int
	GOMAXPROCS int // from the environment; 0 if unset
	// Quota is how many processors the control group may use; 0 for no limit.
	Quota float64
	// Memory is that of the machine or the limit of its control group, in bytes.
	Memory, Available   int64
	SwapTotal, SwapFree int64
	TempDir             string
	TempFree            int64
	TempError           string
	GPUs                int  // GPUs that the system has
	CUDA                bool // this build can use them
	FileLimit           int64
}

// Process is a task's process on this machine. Unknown numbers are -1.
type Process struct {
	PID                  int64
	FileLimit, OpenFiles int64
	Swapped              int64 // bytes
}

// Severity is how bad a finding is.
type Severity string

// Severities, the worst first.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

// Finding is something that is wrong or worth knowing.
type Finding struct {
	Severity Severity `json:"severity"`
	Check    string   `json:"check"`
	// Task is the task's name or the server's address; empty for the machine and the cluster as a whole.
	Task string `json:"task,omitempty"`
	// Found is what was found, and Remedy what to do about it.
	Found  string `json:"found"`
	Remedy string `json:"remedy"`
}
