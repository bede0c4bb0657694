package kernels

import "strings"

// The ops on strings.
func init() {
	Register(
		Def{Op: "AsString", New: newAsString},
		Def{Op: "RegexFullMatch", New: always(regexFullMatch)},
		Def{Op: "RegexReplace", New: newRegexReplace},
		Def{Op: "ShardedFilename", New: always(shardedFilename)},
		Def{Op: "StaticRegexFullMatch", New: newStaticRegexFullMatch},
		Def{Op: "StaticRegexReplace", New: newStaticRegexReplace},
		Def{Op: "StringFormat", New: newStringFormat},
		Def{Op: "StringJoin", New: newStringJoin},
		Def{Op: "StringLength", New: newStringLength},
		Def{Op: "StringStrip", New: always(eachString(strings.TrimSpace))},
		Def{Op: "StringToNumber", New: newStringToNumber},
	)
}
