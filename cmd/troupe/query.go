package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/bytesize"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/internal/command/flagset"
	"github.com/troupe-run/troupe/internal/command/plain"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/member"
)

// query makes a command that sends a request to a server, the first of several that answers, within a time limit.
func query(cmd *cobra.Command, ask func(ctx context.Context, c *client.Client, args []string) error) *cobra.Command {
	return watch(cmd, func(ctx context.Context, c *client.Client, timeout time.Duration, args []string) error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return ask(ctx, c, args)
	})
}

// watch makes a command that repeats requests to a server, the first of several that answers. The time limit applies to each call.
func watch(cmd *cobra.Command, ask func(ctx context.Context, c *client.Client, timeout time.Duration, args []string) error) *cobra.Command {
	var timeout time.Duration
	flagset.Duration(cmd.Flags(), &timeout, "timeout", 15*time.Second, flagset.Wait, "how long to wait for the server")
	var identity clientFlags
	identity.add(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, release, err := dial(cmd.Context(), args[0], &identity, timeout)
		if err != nil {
			return err
		}
		defer release()
		return exit.FromServer(identity.explain(ask(cmd.Context(), c, timeout, args[1:])))
	}
	return cmd
}

// dial returns a client of the first of several servers that answers, and a function that releases it.
func dial(ctx context.Context, target string, identity *clientFlags, timeout time.Duration) (c *client.Client, release func(), err error) {
	targets := strings.Split(target, ",")
	for i, target := range targets {
		targets[i] = member.Target(strings.TrimSpace(target))
	}
	opts, forget, err := identity.load(nil)
	if err != nil {
		return nil, nil, exit.Usage(err)
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if c, err = client.Dial(bounded, strings.Join(targets, ","), opts...); err != nil {
		forget()
		if status.CodeOf(err) == status.InvalidArgument {
			return nil, nil, exit.Usage(err)
		}
		return nil, nil, exit.FromServer(identity.explain(err))
	}
	return c, func() {
		_ = c.Close(ctx) // the process ends
		forget()
	}, nil
}

func targetOnly(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return exit.Usage(fmt.Errorf("one target is expected, such as grpc://10.0.0.2:2222; %s", given(args)))
	}
	return nil
}

func newDevices() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "devices TARGET[,TARGET…]",
		Short:   "List the devices of a cluster",
		Long:    "Devices lists the devices of all tasks that the server at TARGET reaches, its own first. With\nseveral targets, it asks the first one that answers.",
		Example: "  troupe devices grpc://10.0.0.2:2222",
		Args:    targetOnly,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return query(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		devices, err := c.Devices(ctx)
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), deviceRecords(devices))
		}
		t := table(cmd.OutOrStdout(), "DEVICE", "TYPE", "MEMORY LIMIT", "INCARNATION", "DESCRIPTION")
		for _, d := range devices {
			t.row(d.Name, d.Type, limitText(d.MemoryLimit), fmt.Sprintf("%016x", d.Incarnation), d.Description)
		}
		return t.end()
	})
}

func newStatus() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status TARGET[,TARGET…]",
		Short: "Show which tasks of a cluster are up",
		Long: `Status shows what the server at TARGET knows of each declared task: whether it is up, down or
never seen, since when, at which address, which version of Troupe it runs, with which devices, and why
it is not up. The server must be Troupe's; TensorFlow's do not have this information. With several targets, it asks the first one that
answers: any task of the cluster knows all tasks. It exits with 1 if a task is not up, with 4 if no
server answers.`,
		Example: "  troupe status grpc://10.0.0.2:2222",
		Args:    targetOnly,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return query(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		s, err := c.Status(ctx)
		if err != nil {
			return err
		}
		processes, unseen := processesOf(ctx, c)
		if asJSON {
			return cmp.Or(printJSON(cmd.OutOrStdout(), statusRecordOf(s, processes)), allUp(s))
		}
		t := table(cmd.OutOrStdout(), "TASK", "ADDRESS", "STATE", "SINCE", "VERSION", "DEVICES", "WHY")
		for _, task := range s.Tasks {
			t.row(task.Task, task.Address, task.State, sinceText(task.Since), orDash(processes[task.Task].GetVersion()), devicesText(task.Devices), task.Reason)
		}
		if err := t.end(); err != nil {
			return err
		}
		if unseen != nil {
			if _, err := plain.Printf(cmd.OutOrStdout(), "\nwarning: the versions of the tasks are not known: %v\n", unseen); err != nil {
				return err
			}
		}
		for _, task := range s.Tasks {
			if soon := expiryOf(processes[task.Task]); soon != "" {
				if _, err := plain.Printf(cmd.OutOrStdout(), "\nwarning: %s: %s\n", task.Task, soon); err != nil {
					return err
				}
			}
		}
		if s.Exposed != "" {
			_, err = plain.Printf(cmd.OutOrStdout(), "\nwarning: %s\n", s.Exposed)
		}
		return cmp.Or(err, allUp(s))
	})
}

// expiryOf returns a note if a task's certificate expires soon, and otherwise an empty text.
func expiryOf(p *view.Process) string {
	return access.ExpiryWarning(p.GetCertificateFrom(), p.GetCertificateUntil(), time.Now())
}

// processesOf returns the processes of all tasks that are up, with the version of Troupe and the certificate. The map lacks tasks that do not
// answer.
func processesOf(ctx context.Context, c *client.Client) (map[string]*view.Process, error) {
	// Every section has the task's process; this one is small.
	seen, err := c.See(ctx, &client.Query{Sections: []string{"devices"}, Cluster: true})
	if err != nil {
		return nil, err
	}
	processes := map[string]*view.Process{}
	for _, t := range seen.Tasks {
		processes[t.GetTask()] = t.GetProcess()
	}
	return processes, nil
}

// allUp returns an error if a task is not up.
func allUp(s *client.ClusterStatus) error {
	if slices.ContainsFunc(s.Tasks, func(t client.TaskStatus) bool { return t.State != "up" }) {
		return errNotUp
	}
	return nil
}

// The records are what --json prints. Their keys are snake_case and part of the command's interface: programs read
// them.
type (
	deviceRecord struct {
		Name        string `json:"name"`
		Type        string `json:"type"`
		MemoryLimit int64  `json:"memory_limit"` // bytes; 0 means none
		Incarnation uint64 `json:"incarnation"`
		Description string `json:"description"`
		Local       bool   `json:"local"`
	}
	taskRecord struct {
		Task    string `json:"task"`
		Address string `json:"address"`
		State   string `json:"state"`
		Since   int64  `json:"since,omitempty"` // nanoseconds since 1970
		Reason  string `json:"reason,omitempty"`
		Boot    uint64 `json:"boot,omitempty"`
		Version string `json:"version,omitempty"` // of Troupe; absent if the task did not report it
		// CertificateUntil is when the task's certificate expires, in nanoseconds since 1970; absent without one.
		CertificateUntil int64          `json:"certificate_until,omitempty"`
		Devices          []deviceRecord `json:"devices,omitempty"`
	}
	statusRecord struct {
		Task  string       `json:"task"`
		Spec  string       `json:"spec"`
		Tasks []taskRecord `json:"tasks"`
		// Exposed is a warning; absent if there is none.
		Exposed string `json:"exposed,omitempty"`
	}
	actorRecord struct {
		Name     string `json:"name"`
		Kind     string `json:"kind"`
		State    string `json:"state"`
		Handled  uint64 `json:"handled"`
		Waiting  int64  `json:"waiting"`
		Panics   uint64 `json:"panics"`
		Restarts uint64 `json:"restarts"`
		Since    int64  `json:"since"` // nanoseconds since 1970
		// Device is present for a device's executor.
		Device *deviceStateRecord `json:"device,omitempty"`
	}
	deviceStateRecord struct {
		Lost         string `json:"lost,omitempty"`
		Losses       int64  `json:"losses"`
		Incarnation  uint64 `json:"incarnation"`
		PartsRunning int64  `json:"parts_running"`
		PartsDone    int64  `json:"parts_done"`
		PartsFailed  int64  `json:"parts_failed"`
		PartsRefused int64  `json:"parts_refused"`
		Programs     int64  `json:"programs"`
		MemoryLimit  int64  `json:"memory_limit"` // bytes, as in the following fields; 0 means none
		MemoryInUse  int64  `json:"memory_in_use"`
		MemoryPeak   int64  `json:"memory_peak"`
		MemoryIdle   int64  `json:"memory_idle"`
	}
	actorsRecord struct {
		Task   string        `json:"task"`
		Actors []actorRecord `json:"actors"`
	}
)

func deviceRecords(devices []client.Device) []deviceRecord {
	records := make([]deviceRecord, len(devices))
	for i, d := range devices {
		records[i] = deviceRecord{Name: d.Name, Type: d.Type, MemoryLimit: d.MemoryLimit, Incarnation: d.Incarnation, Description: d.Description, Local: d.Local}
	}
	return records
}

func statusRecordOf(s *client.ClusterStatus, processes map[string]*view.Process) statusRecord {
	r := statusRecord{Task: s.Task, Spec: s.Spec, Tasks: make([]taskRecord, len(s.Tasks)), Exposed: s.Exposed}
	for i, t := range s.Tasks {
		r.Tasks[i] = taskRecord{Task: t.Task, Address: t.Address, State: t.State, Reason: t.Reason, Boot: t.Boot, Version: processes[t.Task].GetVersion(),
			CertificateUntil: processes[t.Task].GetCertificateUntil(), Devices: deviceRecords(t.Devices)}
		if !t.Since.IsZero() {
			r.Tasks[i].Since = t.Since.UnixNano()
		}
	}
	return r
}

func actorsRecordOf(list *client.TaskActors) actorsRecord {
	r := actorsRecord{Task: list.Task, Actors: make([]actorRecord, len(list.Actors))}
	for i, a := range list.Actors {
		r.Actors[i] = actorRecord{a.Name, a.Kind, a.State, a.Handled, a.Waiting, a.Panics, a.Restarts, a.Since.UnixNano(), (*deviceStateRecord)(a.Device)}
	}
	return r
}

func newActors() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "actors TARGET[,TARGET…]",
		Short: "List the actors of a task",
		Long: `Actors lists the actors of the task at TARGET: its master, worker, directory, sessions, executors of
devices, containers and queues, and the program's own actors. For each, it shows how many messages it
has handled, how many are waiting, how many panicked, how often it was restarted after a failure, and
when it was started. For an executor, it also shows what runs on its device, how much of its memory is
in use, and whether and why the device is lost. With several targets, it asks the first one that answers.`,
		Example: "  troupe actors grpc://10.0.0.2:2222",
		Args:    targetOnly,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return query(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		list, err := c.Actors(ctx)
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), actorsRecordOf(list))
		}
		t := table(cmd.OutOrStdout(), "KIND", "ACTOR", "STATE", "HANDLED", "WAITING", "PANICS", "RESTARTS", "SINCE", "DEVICE")
		for _, a := range list.Actors {
			t.row(a.Kind, a.Name, a.State, strconv.FormatUint(a.Handled, 10), strconv.FormatInt(a.Waiting, 10), strconv.FormatUint(a.Panics, 10),
				strconv.FormatUint(a.Restarts, 10), sinceText(a.Since), deviceStateText(a.Device))
		}
		return t.end()
	})
}

// deviceStateText formats the state of an executor's device in one line; empty for other actors.
func deviceStateText(s *client.DeviceState) string {
	if s == nil {
		return ""
	}
	text := fmt.Sprintf("%d running, %d done, %d failed; %d programs; %s of %s in use", s.PartsRunning, s.PartsDone, s.PartsFailed, s.Programs,
		bytesize.Text(s.MemoryInUse), limitText(s.MemoryLimit))
	if s.Losses > 0 {
		text += fmt.Sprintf("; lost %d times", s.Losses)
	}
	if s.Lost != "" {
		first, _, _ := strings.Cut(s.Lost, "\n")
		text += fmt.Sprintf(", out of service, %d refused: %s", s.PartsRefused, first)
	}
	return text
}

// printJSON prints a value. JSON escapes line ends and most control characters of terminals; the rest is escaped here.
func printJSON(w io.Writer, v any) error {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(w, jsonControls.Replace(b.String()))
	return err
}

// jsonControls escapes the control characters that JSON allows in strings: DEL, C1, and those that change the direction of text.
var jsonControls = func() *strings.Replacer {
	var pairs []string
	for _, of := range [][2]rune{{0x7f, 0x9f}, {0x200e, 0x200f}, {0x202a, 0x202e}, {0x2066, 0x2069}} {
		for r := of[0]; r <= of[1]; r++ {
			pairs = append(pairs, string(r), fmt.Sprintf(`\u%04x`, r))
		}
	}
	return strings.NewReplacer(pairs...)
}()

func limitText(bytes int64) string {
	if bytes == 0 {
		return "none"
	}
	return bytesize.Text(bytes)
}

func sinceText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return fmt.Sprintf("%s (%s)", t.Format(time.DateTime), time.Since(t).Round(time.Second))
}

// devicesText counts devices by type: 2 CPU, 1 GPU.
func devicesText(devices []client.Device) string {
	var types []string
	counts := map[string]int{}
	for _, d := range devices {
		if counts[d.Type] == 0 {
			types = append(types, d.Type)
		}
		counts[d.Type]++
	}
	if len(types) == 0 {
		return "-"
	}
	for i, t := range types {
		types[i] = strconv.Itoa(counts[t]) + " " + t
	}
	return strings.Join(types, ", ")
}

// tableWriter prints aligned columns.
type tableWriter struct{ w *tabwriter.Writer }

func table(w io.Writer, head ...string) *tableWriter {
	t := &tableWriter{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.row(head...)
	return t
}

func (t *tableWriter) row(cells ...string) {
	for i, c := range cells {
		cells[i] = plain.Line(c)
	}
	// end returns the error, if any.
	fmt.Fprintln(t.w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
}

func (t *tableWriter) end() error { return t.w.Flush() }

// errNotUp is the error for tasks that are not up when the output has already reported them: it has no text of its own.
var errNotUp = exit.Failed(errors.New(""))
