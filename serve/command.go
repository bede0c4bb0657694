package serve

import (
	"log/slog"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/command"
	"github.com/troupe-run/troupe/internal/command/flagset"
	"github.com/troupe-run/troupe/remote/compress"
	"github.com/troupe-run/troupe/remote/spec"
	"github.com/troupe-run/troupe/serve/internal/owner"
)

// help is what the command's help says, after its name.
const help = ` runs one task of a cluster until SIGTERM or SIGINT, then lets running steps end for
at most --drain and exits with 0. A second signal ends it at once.

The cluster is declared in one of these forms:

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
free port. The server binds the address that the cluster gives it, or the one of --bind. If that address
is not this machine's, such as a forwarded port, it binds the port on all interfaces, with certificates,
with a secret, or with --insecure; otherwise it fails and says which --bind does so.

A task may write its own host differently than the others do, such as localhost, if the port is the same.
It may also leave out tasks that it has nothing to do with.

With --server_def, another program embeds the task. The server prints "TARGET grpc://host:port" to
standard output when the port is bound, or "ERROR code message"; with --http, "HTTP http://host:port/"
comes before. On standard input, it answers the line "start" with "STARTED", and ends like on SIGTERM
at "stop", or at "stop 2s" with that time in place of --drain. The end of standard input ends the
process at once (unless it is a terminal or /dev/null). With --parent, the program says and hears
the same at an address of its own, where it also has functions for graphs to call (PyFunc).`

// examples are shown with the command in place of the asterisk.
const examples = `  * --cluster 'ps=10.0.0.1:2222;worker=10.0.0.2:2222,10.0.0.3:2222' --job worker --task 1
  * --join 10.0.0.1:2222 --job worker
  srun --ntasks 4 * --cluster slurm --slurm-jobs ps=1,worker=3
  * --local=localhost:0`

// serverFlags are the flags of a server.
type serverFlags struct {
	declaration
	gpus      flagset.GPUs
	security  securityFlags
	run       flagset.Run
	bind      string
	lend      bool
	outsiders bool
	check     bool
	strict    bool
	files     flagset.Files
	http      flagset.HTTP
	parent    string

	set *pflag.FlagSet // that they are in
}

// newCommand returns the command of a program, which has a name.
func newCommand(p Program) *cobra.Command {
	f := &serverFlags{}
	words := strings.Fields(p.Name)
	name := words[len(words)-1]
	first, size := utf8.DecodeRuneInString(name)
	cmd := &cobra.Command{
		Use:     name,
		Short:   "Run one task of a cluster until it is stopped",
		Long:    string(unicode.ToUpper(first)) + name[size:] + help,
		Example: strings.ReplaceAll(examples, "*", p.Name),
		Args:    command.NoArgs,
	}
	cmd.SetGlobalNormalizationFunc(command.FlagName)
	f.add(cmd.Flags())
	logger := command.LogFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		log, err := logger()
		if err != nil {
			return err
		}
		f.hasTask = f.set.Changed("task")
		if err := f.declaration.check(); err != nil {
			return err
		}
		if f.run.Unpinned == "" && f.serverDef != "" {
			f.run.Unpinned = flagset.UnpinnedTask // a program that was written for tf.distribute.Server
		}
		if f.check || f.strict {
			return f.dryRun(cmd.Context(), p.Options, cmd.OutOrStdout(), log)
		}
		return f.serve(cmd, p, log)
	}
	return cmd
}

func (f *serverFlags) add(flags *pflag.FlagSet) {
	f.set = flags
	flags.StringVar(&f.cluster, "cluster", "", "the cluster, as job=host:port,host:port;job=host:port, or slurm: the step of Slurm that the process is in")
	flags.StringVar(&f.slurmJobs, "slurm-jobs", "", "with --cluster slurm, how many tasks each job has, as ps=1,worker=*, where the asterisk is the rest (without it, all tasks are workers)")
	flagset.Int(flags, &f.slurmPort, "slurm-port", spec.SlurmPort, flagset.Bounds[int]{Least: 1, Most: math.MaxUint16}, "with --cluster slurm, the port of the first task of each machine; those of its other tasks follow")
	flags.BoolVar(&f.check, "check", false, "check the flags, the cluster, and the files of certificates, tokens and policies, print which task this is, and exit; nothing is bound")
	flags.BoolVar(&f.strict, "check-strict", false, "like --check, on the machine that the task is for: exit with 3 if there is a warning")
	flags.StringSliceVar(&f.join, "join", nil, "host:port of tasks of a running cluster; the server claims a free task of it")
	flags.StringVar(&f.job, "job", "", "the job of the server's task (also --job_name)")
	flagset.Int(flags, &f.task, "task", 0, flagset.UpTo(math.MaxInt32), "the index of the server's task in its job (also --task_index)")
	flags.StringVar(&f.serverDef, "server-def", "", "file with a tensorflow.ServerDef, binary or text")
	flags.StringVar(&f.config, "config", "", "file with a tensorflow.ConfigProto, binary or text, with defaults for sessions")
	flags.Var(&f.compress, "rpc-compression", "compression of large tensors that are sent to other tasks, unless a session's rpc_options say otherwise: "+
		strings.Join(compress.Names(), ", ")+", with :1 (fast) to :3 (small)")
	flags.BoolVar(&f.lend, "lending", true, "let processes of this machine read large tensors out of memory, instead of sending them")
	flags.BoolVar(&f.outsiders, "outsiders", false, "let processes outside the cluster exchange messages with programs' actors, in protoactor-go's remote protocol")
	flags.StringVar(&f.parent, "parent", "", "with --server-def, where the program that embeds the task listens: unix:PATH or tcp:HOST:PORT; "+
		"the token for it is in "+owner.TokenVariable)
	flags.StringVar(&f.bind, "bind", "", "host:port to bind in place of the task's address, such as 0.0.0.0:2222 for all interfaces where that is a forwarded port")
	flags.StringVar(&f.protocol, "protocol", "", "grpc, the only supported protocol")
	flags.StringArrayVar(&f.jobs, declaredJob, nil, "")
	flags.Lookup(declaredJob).Hidden = true
	f.gpus.Add(flags, flagset.AllGPUs)
	f.security.add(flags)
	f.run.Add(flags)
	f.files.Add(flags)
	f.http.Add(flags)
}

// options returns the server's options from the flags, apart from its declaration. Those of the program come before: flags override them.
func (f *serverFlags) options(program []troupe.Option, s *security, log *slog.Logger) []troupe.Option {
	all := slices.Concat([]troupe.Option{troupe.WithLogger(log)}, program, f.gpus.Options(), s.options, f.files.Options(), f.http.Options(), f.run.Options())
	if f.bind != "" {
		all = append(all, troupe.WithBind(f.bind))
	}
	if f.set.Changed("lending") {
		all = append(all, troupe.WithLending(f.lend))
	}
	if f.set.Changed("outsiders") {
		all = append(all, troupe.WithOutsiders(f.outsiders))
	}
	return all
}
