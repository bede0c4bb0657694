package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/cmd/troupe/internal/telemetry"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote"
	"github.com/troupe-run/troupe/remote/compress"
	"github.com/troupe-run/troupe/remote/spec"
)

const serveHelp = `Serve runs one task of a cluster until SIGTERM or SIGINT, then lets running steps end for
at most --drain and exits with 0. A second signal ends it at once.

The cluster is declared in one of these forms, the same for all of its tasks:

  --cluster 'ps=h:2222;worker=h:2223,h:2224' --job worker --task 1
  --ps=h:2222 --worker=h:2223,h:2224 --job_name=worker --task_index=1   (any name is a job)
  TF_CONFIG in the environment, as TensorFlow's launchers set it
  --server_def FILE, a tensorflow.ServerDef, binary or text
  --cluster slurm in a step of Slurm, where srun starts each task: TensorFlow's SlurmClusterResolver
    declares the same cluster from the same variables

or by a running cluster:

  --join h:2222,h:2223 --job worker      (any of its tasks; the first one that answers sends the spec)

The server then claims the first free task of the job whose address is local, or the one that --task
names. If none is free, it exits with 3 and lists which process has which task. If none of the seeds
answers, it exits with 4.

Flags take one dash or two, and underscores work in place of dashes. --job may be omitted if the
cluster has one job, and --task if the job has one task. In a cluster of one task, port 0 means any
free port. The server binds the address that the cluster gives it, or the one of --bind.

With --server_def, another program embeds the task. The server prints "TARGET grpc://host:port" to
standard output when the port is bound, or "ERROR code message"; with --http, "HTTP http://host:port/"
comes before. On standard input, it answers the line "start" with "STARTED", and ends like on SIGTERM
at "stop", or at "stop 2s" with that time in place of --drain. The end of standard input ends the
process at once (unless it is a terminal or /dev/null).`

type serveFlags struct {
	declaration
	gpus      gpuFlags
	security  securityFlags
	run       runFlags
	bind      string
	lend      bool
	outsiders bool
	check     bool
	files     fileFlags
	http      httpFlags
}

func newServe(stdin *os.File) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run one task of a cluster until it is stopped",
		Long:  serveHelp,
		Example: `  troupe serve --cluster 'ps=10.0.0.1:2222;worker=10.0.0.2:2222,10.0.0.3:2222' --job worker --task 1
  troupe serve --join 10.0.0.1:2222 --job worker
  srun --ntasks 4 troupe serve --cluster slurm --slurm-jobs ps=1,worker=3
  troupe serve --local=localhost:0`,
		Args: noArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.cluster, "cluster", "", "the cluster, as job=host:port,host:port;job=host:port, or slurm: the step of Slurm that the process is in")
	flags.StringVar(&f.slurmJobs, "slurm-jobs", "", "with --cluster slurm, how many tasks each job has, as ps=1,worker=*, where the asterisk is the rest (without it, all tasks are workers)")
	flags.IntVar(&f.slurmPort, "slurm-port", spec.SlurmPort, "with --cluster slurm, the port of the first task of each machine; those of its other tasks follow")
	flags.BoolVar(&f.check, "check", false, "check the flags, the cluster, and the files of certificates, tokens and policies, print which task this is, and exit; nothing is bound")
	flags.StringSliceVar(&f.join, "join", nil, "host:port of tasks of a running cluster; the server claims a free task of it")
	flags.StringVar(&f.job, "job", "", "the job of the server's task (also --job_name)")
	flags.IntVar(&f.task, "task", 0, "the index of the server's task in its job (also --task_index)")
	flags.StringVar(&f.serverDef, "server-def", "", "file with a tensorflow.ServerDef, binary or text")
	flags.StringVar(&f.config, "config", "", "file with a tensorflow.ConfigProto, binary or text, with defaults for sessions")
	flags.Var(&f.compress, "rpc-compression", "compression of large tensors that are sent to other tasks, unless a session's rpc_options say otherwise: "+
		strings.Join(compress.Names(), ", ")+", with :1 (fast) to :3 (small)")
	flags.BoolVar(&f.lend, "lending", true, "let processes of this machine read large tensors out of memory, instead of sending them")
	flags.BoolVar(&f.outsiders, "outsiders", false, "let processes outside the cluster exchange messages with programs' actors, in protoactor-go's remote protocol")
	flags.StringVar(&f.bind, "bind", "", "host:port to bind, if the task's address in the cluster is a forwarded port")
	flags.StringVar(&f.protocol, "protocol", "", "grpc, the only supported protocol")
	flags.StringArrayVar(&f.jobs, declaredJob, nil, "")
	flags.Lookup(declaredJob).Hidden = true
	f.gpus.add(flags, allGPUs)
	f.security.add(flags)
	f.run.add(flags)
	f.files.add(flags)
	f.http.add(flags)
	logger := logFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f.hasTask = flags.Changed("task")
		log, err := logger()
		if err != nil {
			return err
		}
		if err := f.declaration.check(); err != nil {
			return err
		}
		if f.check {
			return f.dryRun(cmd.OutOrStdout(), log)
		}
		tuneMemory(int64(f.run.process))
		signals := catchSignals()
		traces, stopTraces, err := telemetry.Traces(cmd.Context(), remote.Version(), log)
		if err != nil {
			return refused(err)
		}
		defer stopTraces()
		security, err := f.security.load(log)
		if err != nil {
			return refused(err)
		}
		defer security.close()
		stops := make(chan time.Duration, 1)
		stop := func(drain time.Duration) {
			select {
			case stops <- drain:
			default: // it stops already
			}
		}
		drained := func(within time.Duration) { stop(cmp.Or(within, f.run.drain)) }
		server, err := f.server(cmd.Context(), log, append(f.options(security, log), troupe.WithTraces(traces), troupe.WithDrainRequests(drained))...)
		if err != nil {
			if f.serverDef != "" {
				announceError(cmd.OutOrStdout(), err)
			}
			if len(f.join) > 0 && status.CodeOf(err) == status.Unavailable {
				return fromServer(err)
			}
			return refused(err)
		}
		defer reloadOnHangup(log, func() error { return security.reload(server) })()
		log.Info("serving", "task", server.Task(), "target", server.Target(), "pid", os.Getpid())
		if at := server.HTTP(); at != "" {
			log.Info("serving HTTP", "url", at)
		}
		if f.serverDef != "" {
			if at := server.HTTP(); at != "" {
				fmt.Fprintf(cmd.OutOrStdout(), "HTTP %s\n", at)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "TARGET %s\n", server.Target())
			if listens(stdin) {
				// Ends with the process: a read from standard input cannot be called off.
				go obey(stdin, cmd.OutOrStdout(), f.run.drain, stop, func() { os.Exit(exitOK) })
			}
		}
		runUntil(cmd.Context(), signals, stops, log, f.run.drain, server)
		return nil
	}
	return cmd
}

// options are what the flags say of the server, beside its declaration.
func (f *serveFlags) options(s *security, log *slog.Logger) []troupe.Option {
	return append(slices.Concat(f.gpus.options(), s.options, f.files.options(), f.http.options(), f.run.options()),
		troupe.WithLogger(log), troupe.WithBind(f.bind), troupe.WithLending(f.lend), troupe.WithOutsiders(f.outsiders))
}

// dryRun checks what can be checked without the network, and prints which task the server would be.
func (f *serveFlags) dryRun(out io.Writer, log *slog.Logger) error {
	security, err := f.security.load(log)
	if err != nil {
		return refused(err)
	}
	defer security.close()
	self, err := f.resolve(log, f.options(security, log)...)
	if err != nil {
		return refused(err)
	}
	_, err = fmt.Fprintln(out, self)
	return err
}

// runFlags are the flags that serve and up share.
type runFlags struct {
	device, process, step, session, client size
	lease, drain                           time.Duration
}

func (f *runFlags) add(flags *pflag.FlagSet) {
	flags.Var(&f.device, "memory-limit", "most bytes of tensors on a device, such as 4GiB (0: what the machine has)")
	flags.Var(&f.process, "process-memory", "most bytes that may be alive in the process (0: four fifths of the machine's memory, or of the control group's limit)")
	flags.Var(&f.step, "step-memory", "most bytes of host memory that a step may take on a task (0: no limit of its own)")
	flags.Var(&f.session, "session-memory", "most bytes of host memory that a client's session may take on a task (0: no limit of its own)")
	flags.Var(&f.client, "client-memory", "most bytes of host memory that all sessions of a client may take on a task (0: three quarters of --process-memory)")
	flags.DurationVar(&f.lease, "lease", troupe.DefaultLease, "how long a session lives after its client's connection has ended")
	flags.DurationVar(&f.drain, "drain", 5*time.Second, "how long running steps may continue when the server is stopped")
}

// options are what the flags say of a server.
func (f *runFlags) options() []troupe.Option {
	return []troupe.Option{troupe.WithLease(f.lease), troupe.WithMemoryLimit(int64(f.device)), troupe.WithProcessMemory(int64(f.process)),
		troupe.WithStepMemory(int64(f.step)), troupe.WithSessionMemory(int64(f.session)), troupe.WithClientMemory(int64(f.client))}
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(fmt.Errorf("unexpected argument %q: the command takes only flags", args[0]))
	}
	return nil
}

// announceError tells the program that embeds the server why it does not come up, in one line.
func announceError(w io.Writer, err error) {
	text := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), " ")
	fmt.Fprintf(w, "ERROR %d %s\n", status.CodeOf(err), text)
}

// listens tells whether somebody can be at the other end of standard input: a terminal is for
// people, and /dev/null is at its end from the start.
func listens(stdin *os.File) bool {
	info, err := stdin.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice == 0
}

// obey does what the embedding program says, a line for each, until the end of what it says.
func obey(stdin io.Reader, stdout io.Writer, drain time.Duration, stop func(drain time.Duration), ended func()) {
	defer ended()
	lines := bufio.NewScanner(stdin)
	for lines.Scan() {
		command, rest, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		switch {
		case command == "start" && rest == "":
			fmt.Fprintln(stdout, "STARTED")
		case command == "stop":
			within, err := drainTime(rest, drain)
			if err != nil {
				announceError(stdout, err)
				continue
			}
			stop(within)
		default:
			announceError(stdout, status.InvalidArgumentf("the commands are start, stop and stop DURATION, not %q", lines.Text()))
		}
	}
}

// drainTime reads how long running steps may continue, or gives that of the flags.
func drainTime(text string, otherwise time.Duration) (time.Duration, error) {
	if text == "" {
		return otherwise, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, status.InvalidArgumentf("stop takes a duration, such as 5s, not %q", text)
	}
	return d, nil
}
