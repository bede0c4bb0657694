// Package flagset has the flags that servers have in common, whether package serve or another command runs them, each group with the
// server's options that it stands for.
//
// An option is only set if its flag is on the command line, or if the flag's default is not the option's. A program's own options, which come
// before those of flags, are thus the defaults of its flags.
package flagset

import (
	"github.com/spf13/pflag"
	"github.com/troupe-run/troupe"
)

// flagOption is the option that a flag sets.
type flagOption struct {
	flag   string
	option troupe.Option
}

// given returns the options whose flags are on the command line.
func given(flags *pflag.FlagSet, all ...flagOption) (options []troupe.Option) {
	for _, o := range all {
		if flags.Changed(o.flag) {
			options = append(options, o.option)
		}
	}
	return options
}
