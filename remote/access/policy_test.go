package access

import (
	"os"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
)

const examplePolicy = `# Who may do what: the first rule that is about somebody decides.
groups:
  operators: [client:ops, "client:oncall-*"]
rules:
  - who: group:operators
    by: [certificate, token]
    may: all
    files: all
  - who: [client:alice, claim:trainers]
    may: [open, list]
    devices: ["/job:worker/*", "/job:ps/*"]
    containers: ["", "alice*"]
    ops:
      allow: "*"
      deny:
        - "@files"
        - Print*
    files: shared
    limits: {sessions: 2, session_bytes: 1GiB, step_bytes: 256MiB, steps: 8, steps_per_second: 100}
  - who: [loopback, "task:worker/*", "task:ps"]
    may: list
    ops: []
`

func parse(t testing.TB, text string) *Policy {
	t.Helper()
	p, err := ParsePolicy("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPolicy(t *testing.T) {
	p := parse(t, examplePolicy)
	ops := p.Rights(Identity{Kind: Certificate, Name: ClientName("oncall-3")})
	alice := p.Rights(Identity{Kind: Token, Name: ClientName("alice")})
	bob := p.Rights(Identity{Kind: Token, Name: ClientName("bob"), Claims: []string{"readers", "trainers"}})
	local := p.Rights(Identity{Kind: Loopback})
	worker := p.Rights(Identity{Kind: Certificate, Name: TaskName("worker", 7)})
	stranger := p.Rights(Identity{Kind: Network})
	for _, c := range []struct {
		err  error
		want string
	}{
		{ops.May(ResetCluster), ""},
		{ops.Scope().Op("WriteFile"), ""},
		{ops.Scope().Device("/job:any/replica:0/task:0/device:GPU:0"), ""},
		{alice.May(OpenSessions), ""},
		{alice.May(ResetCluster), "client:alice may not reset containers: the rule at policy.yaml:9 does not allow it (reset is not in its may)"},
		{bob.May(OpenSessions), ""},
		{bob.Scope().Op("MatMul"), ""},
		{bob.Scope().Op("WriteFile"), `client:bob may not use the op WriteFile: denied by "@files" at policy.yaml:16`},
		{alice.Scope().Op("PrintV2"), `denied by "@files" at policy.yaml:16`},
		{alice.Scope().Op("Print"), `denied by "Print*" at policy.yaml:17`},
		{alice.Scope().Device("/job:worker/replica:0/task:0/device:CPU:0"), ""},
		{alice.Scope().Device("/job:other/replica:0/task:0/device:CPU:0"), "the rule at policy.yaml:9 does not allow it (nothing in its list at line 11 matches)"},
		{alice.Scope().Container("", ""), ""},
		{alice.Scope().Container("alice/x", ""), ""},
		{alice.Scope().Container("bob", ""), "client:alice may not use the container bob: the rule at policy.yaml:9"},
		{local.May(ListState), ""},
		{local.May(OpenSessions), "loopback may not open sessions: the rule at policy.yaml:20"},
		{local.Scope().Op("NoOp"), "list at line 22"},
		{worker.May(ListState), ""},
		{p.Rights(Identity{Kind: Certificate, Name: TaskName("ps", 7)}).May(ListState), ""},
		{p.Rights(Identity{Kind: Certificate, Name: TaskName("ps2", 7)}).May(ListState), "no rule allows"},
		{stranger.May(OpenSessions), "network may not open sessions: no rule allows it"},
		{stranger.Scope().Op("NoOp"), "no rule allows it"},
		{stranger.Scope().Container("", ""), "network may not use the default container: no rule allows it"},
	} {
		if !contains(c.err, c.want) || c.err != nil && status.CodeOf(c.err) != status.PermissionDenied {
			t.Errorf("%v (%v), want %q", c.err, status.CodeOf(c.err), c.want)
		}
	}
	if l, want := alice.Limits(), (Limits{Sessions: 2, SessionBytes: 1 << 30, StepBytes: 256 << 20, Steps: 8, StepsPerSecond: 100}); l != want {
		t.Errorf("the limits are %+v, want %+v", l, want)
	}
	if f := alice.Files(); f != SharedFiles {
		t.Errorf("the files are %s", f)
	}
	if ops.Files() != AllFiles || stranger.Files() != NoFiles || local.Files() != NoFiles {
		t.Error("files are none unless a rule gives them")
	}
}

func TestBadPolicies(t *testing.T) {
	for want, text := range map[string]string{
		"p.yaml is empty":                                 "",
		"p.yaml:1: fields are expected":                   "- a",
		"p.yaml:1: a policy has rules":                    "groups: {}",
		`p.yaml:1: unknown field "rule": groups`:          "rule: []",
		`p.yaml:3: "who" is given twice, first in line 2`: "rules:\n  - who: any\n    who: any",
		`p.yaml:1: unknown field "whom"`:                  "rules: [{whom: any}]",
		"p.yaml:2: the rule does not say who":             "rules:\n  - may: open",
		`p.yaml:3: "root" says nobody`:                    "rules:\n  - who:\n    - root",
		`p.yaml:1: "client:" says nobody`:                 `rules: [{who: "client:"}]`,
		`p.yaml:1: "task:" says nobody`:                   `rules: [{who: "task:"}]`,
		`p.yaml:1: "claim:" says nobody`:                  `rules: [{who: "claim:"}]`,
		`p.yaml:1: the group "x" is not defined`:          `rules: [{who: "group:x"}]`,
		"p.yaml:1: a group has no groups":                 `{groups: {a: "group:b"}, rules: []}`,
		`p.yaml:1: "a b" is not a group's name`:           `{groups: {a b: any}, rules: []}`,
		`p.yaml:2: "fly" is no action`:                    "rules: [{who: any,\n may: fly}]",
		`p.yaml:1: "password" is not a way`:               "rules: [{who: any, by: password}]",
		`there is no group of ops "@nets"`:                `rules: [{who: any, ops: "@nets"}]`,
		"a text is expected here, not fields":             "rules: [{who: any, files: {read: data}}]",
		`"some" does not say which files`:                 "rules: [{who: any, files: some}]",
		`"0" is not a number from 1`:                      "rules: [{who: any, limits: {steps: 0}}]",
		`"9999999999" is not a number from 1`:             "rules: [{who: any, limits: {steps: 9999999999}}]",
		`"1PB" is not a number of bytes`:                  "rules: [{who: any, limits: {step_bytes: 1PB}}]",
		`"0" is not a number of bytes`:                    "rules: [{who: any, limits: {step_bytes: 0}}]",
		`"9999999TiB" is not a number of bytes`:           "rules: [{who: any, limits: {step_bytes: 9999999TiB}}]",
		"an alias, which policies do not have":            "rules: [{who: &a any}, {who: *a}]",
		"a text is expected here":                         "rules: [{who: null}]",
		"a list is expected here, not \"x\"":              "rules: x",
		"something follows it":                            "rules: []\n---\nrules: []",
		"p.yaml: yaml: ":                                  "rules: [",
		"a text of 2000 bytes is too long":                "rules: [{who: any, ops: " + strings.Repeat("a", 2000) + "}]",
		"has 10001 entries, the limit is 10000":           "rules: [{who: any, ops: [a" + strings.Repeat(",a", 10000) + "]}]",
	} {
		if _, err := ParsePolicy("p.yaml", []byte(text)); !contains(err, want) || status.CodeOf(err) != status.InvalidArgument {
			t.Errorf("%.80q: %v, want %q", text, err, want)
		}
	}
}

func TestPolicyIsReloaded(t *testing.T) {
	path := file(t, examplePolicy)
	f, err := LoadPolicy(PolicyConfig{File: path, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	alice := Identity{Kind: Token, Name: ClientName("alice")}
	replace := func(text string) error {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return f.Reload()
	}
	if err := replace("rules: ["); err == nil || f.Policy().Rights(alice).May(OpenSessions) != nil {
		t.Errorf("a broken policy: %v; the one before holds: %v", err, f.Policy().Rights(alice).May(OpenSessions))
	}
	if err := replace("rules: []"); err != nil || f.Policy().Rights(alice).May(OpenSessions) == nil {
		t.Errorf("after a reload (%v), alice still has her rights", err)
	}
}

func FuzzPolicy(f *testing.F) {
	f.Add([]byte(examplePolicy))
	f.Add([]byte("rules: [{who: any, may: all, files: all}]"))
	f.Add([]byte("a: &a [*a]"))
	identities := []Identity{{}, {Kind: Loopback}, {Kind: Token, Name: ClientName("alice"), Claims: []string{"x"}}, {Kind: Certificate, Name: TaskName("ps", 0)}}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ParsePolicy("p.yaml", text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "p.yaml") || status.CodeOf(err) != status.InvalidArgument {
				t.Errorf("%v (%v)", err, status.CodeOf(err))
			}
			return
		}
		for _, i := range identities {
			r := p.Rights(i)
			for _, err := range []error{r.May(ResetCluster), r.Scope().Op("ReadFile"), r.Scope().Device("/job:a/replica:0/task:0/device:CPU:0"), r.Scope().Container("", "")} {
				if err != nil && status.CodeOf(err) != status.PermissionDenied {
					t.Error(err)
				}
			}
		}
	})
}
