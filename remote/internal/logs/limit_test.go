package logs

import (
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLimit checks that a flood of one message is cut short and counted, and leaves room for others.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		log := slog.New(Limit(slog.NewTextHandler(&out, nil)))
		other := log.With("task", 1).WithGroup("g")
		for range 5000 {
			log.Warn("flood")
			other.Warn("flood", "n", 2)
		}
		log.Warn("another")
		if n := strings.Count(out.String(), "msg=flood"); n != burst {
			t.Errorf("%d records were written", n)
		}
		if !strings.Contains(out.String(), "msg=another") {
			t.Error("another message was displaced")
		}
		out.Reset()
		time.Sleep(time.Second)
		log.Warn("flood")
		if want := "msg=flood suppressed=9950"; !strings.Contains(out.String(), want) {
			t.Errorf("%s, want %s", &out, want)
		}
	})
}

// TestManyMessages checks that records with ever different messages are limited, too.
func TestManyMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		log := slog.New(Limit(slog.NewTextHandler(&out, nil)))
		log.Warn("known")
		for i := range 50000 {
			log.Warn("flood " + strconv.Itoa(i))
		}
		if n := strings.Count(out.String(), "flood"); n != maxMessages-1+othersBurst {
			t.Errorf("%d records were written", n)
		}
		log.Warn("known")
		if n := strings.Count(out.String(), "msg=known"); n != 2 {
			t.Errorf("a known message was written %d times", n)
		}
	})
}

// variable are the messages that are no constants, by the file and the call, each with the reason why peers cannot cause many of them.
var variable = map[string]string{
	"remote/access/reloader.go: r.log.Error(\"the \"+r.what+\" cannot be reloaded; what was loaded before holds\", \"error\", err)":                                                                        "kinds of files",
	"remote/access/reloader.go: r.log.Info(\"reloaded the \"+r.what, \"files\", r.paths)":                                                                                                                  "kinds of files",
	"remote/internal/eager/service.go: s.Log.Debug(Name+\"/\"+method, \"context\", q.GetContextId(), \"bytes\", m.size, \"error\", err)":                                                                   "names of methods",
	"remote/internal/workerservice/service.go: s.Log.Debug(name, \"request\", q, \"error\", err)":                                                                                                          "names of methods",
	"remote/internal/link/remoting.go: l.log.Warn(\"a message of another task was refused: \"+why, \"actor\", m.target.Id, \"message\", typeName(message), \"sender\", m.sender, \"task\", k.task.Name())": "a few reasons",
	"remote/internal/membership/membership.go: m.log.Log(context.Background(), level, \"a task is \"+state, about...)":                                                                                     "states",
	"remote/member/presence.go: m.log.Log(context.Background(), level, kind, about...)":                                                                                                                    "states",
	"remote/member/member.go: c.Log.Info(\"the port is bound on all interfaces: \"+m.everywhere, \"task\", m.self.Name(), \"address\", m.self.Address)":                                                    "at the start",
	"actors/session_graph.go: s.task.Log.Info(fmt.Sprintf(\"%s: (%s): %s\", n.Name, n.Op, n.Assigned))":                                                                                                    "log_device_placement, with the limit of all others",
	"kernels/control/print.go: ctx.Step.Log.Log(context.Background(), level, strings.TrimSuffix(s, \"\\n\"), \"node\", c.Node.Name)":                                                                       "tf.print to the log, with the limit of all others",
	"remote/gpus.go: n.Log().Info(note)":             "at the start",
	"remote/member/member.go: m.log.Warn(warning)":   "at the start",
	"remote/member/member.go: c.Log.Warn(b.Warning)": "at the start",
}

// TestMessagesAreConstants checks that what peers may cause to be logged is in the attributes of records: records are limited by their messages.
func TestMessagesAreConstants(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	calls, found := 0, map[string]bool{}
	for _, dir := range []string{"remote", "actors", "devices", "containers", "queues", "kernels", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, e fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go") {
				return err
			}
			files := token.NewFileSet()
			f, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				text := func(n ast.Node) string {
					var b strings.Builder
					_ = printer.Fprint(&b, files, n) // a Builder takes everything
					return b.String()
				}
				method, ok := call.Fun.(*ast.SelectorExpr)
				at := map[string]int{"Debug": 0, "Info": 0, "Warn": 0, "Error": 0, "Log": 2, "LogAttrs": 2}
				if i, known := at[nameOf(method)]; ok && known && len(call.Args) > i && strings.HasSuffix(strings.TrimSuffix(strings.ToLower(text(method.X)), "()"), "log") {
					calls++
					name, err := filepath.Rel(root, path)
					if err != nil {
						t.Error(err)
					}
					if what := filepath.ToSlash(name) + ": " + text(call); !isConstant(call.Args[i]) {
						if found[what] = true; variable[what] == "" {
							t.Errorf("%s: the message is no constant", what)
						}
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for what := range variable {
		if !found[what] {
			t.Errorf("there is no %s", what)
		}
	}
	if calls < 60 {
		t.Errorf("only %d calls were found", calls)
	}
}

// nameOf returns the name of a method; empty for nil.
func nameOf(s *ast.SelectorExpr) string {
	if s == nil {
		return ""
	}
	return s.Sel.Name
}

// isConstant reports whether an expression is made of literals.
func isConstant(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return true
	case *ast.BinaryExpr:
		return isConstant(e.X) && isConstant(e.Y)
	}
	return false
}

// TestServersLimitTheirLogs checks that each package of remote in which somebody is served has a limited log: those that listen, other than in
// tests, with a logger of their own.
func TestServersLimitTheirLogs(t *testing.T) {
	root, found := filepath.Join("..", ".."), 0
	for _, pattern := range []string{"*.go", "*/*.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		packages := map[string]string{}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			packages[filepath.Dir(path)] += string(b)
		}
		for dir, text := range packages {
			if listens := regexp.MustCompile(`(net|ListenConfig\{\}\)|port)\.Listen\(`).MatchString(text); !listens || !strings.Contains(text, "*slog.Logger") {
				continue
			}
			found++
			if !strings.Contains(text, "logs.Limited(") {
				t.Errorf("%s listens, and its log has no limit", dir)
			}
			if strings.Contains(text, "c.Log, slog.Default()") {
				t.Errorf("%s has a log without a limit", dir)
			}
		}
	}
	if found < 3 {
		t.Errorf("only %d packages that listen were found", found)
	}
}
