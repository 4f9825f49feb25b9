"""How does the HTML report look? Its style sheet, light and dark, for screens of every width and for paper."""

STYLE = """
:root { color-scheme: light dark;
  --page: #f6f7f8; --card: #ffffff; --text: #1a2027; --soft: #5a6672; --line: #dfe3e8; --faint: #eef1f4;
  --accent: #0a5ea8; --good: #11703f; --good-back: #e2f4e9; --bad: #b02318; --bad-back: #fde9e7;
  --kind-0: #0072b2; --kind-1: #d55e00; --kind-2: #009e73; --kind-3: #b0568f; --kind-4: #b27a00; --kind-5: #3a9bd1; }
@media (prefers-color-scheme: dark) { :root {
  --page: #101417; --card: #181e23; --text: #e7ebee; --soft: #9ba8b4; --line: #303942; --faint: #212930;
  --accent: #74b9f2; --good: #6ad29a; --good-back: #153324; --bad: #ff938a; --bad-back: #43201d;
  --kind-0: #4fa9e0; --kind-1: #f2883c; --kind-2: #35c497; --kind-3: #dd93c2; --kind-4: #e6b23e; --kind-5: #8fd0f5; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); line-height: 1.5;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; font-size: 15px; }
main, header { max-width: 1180px; margin: 0 auto; padding: 0 20px; }
header { padding-top: 32px; }
h1 { font-size: 27px; line-height: 1.2; margin: 0 0 4px; letter-spacing: -0.01em; }
h1 .version { color: var(--soft); font-weight: 400; }
h2 { font-size: 19px; margin: 0 0 4px; }
h3 { font-size: 15px; margin: 22px 0 6px; }
.under { color: var(--soft); margin: 0 0 16px; }
.verdict { font-size: 18px; line-height: 1.45; border-left: 4px solid var(--good); margin: 18px 0;
  padding: 2px 0 2px 14px;
  max-width: 62em; overflow-wrap: anywhere; }
.verdict.none { border-color: var(--bad); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(200px, 1fr)); gap: 12px; margin: 20px 0 0;
  padding: 0; list-style: none; }
.tiles li, section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.tiles li { padding: 12px 16px; }
.tiles .big { display: block; font-size: 26px; font-weight: 650; line-height: 1.25;
  font-variant-numeric: tabular-nums; }
.tiles .what { display: block; color: var(--soft); font-size: 13px; overflow-wrap: anywhere; }
section { margin: 16px 0; padding: 18px 20px 20px; }
section > p { max-width: 70em; margin: 4px 0 12px; }
.soft, .small, figcaption, caption { color: var(--soft); }
.small, figcaption { font-size: 12.5px; }
.lines { display: inline-flex; flex-direction: column; }
table { border-collapse: collapse; width: 100%; font-size: 14px; margin: 6px 0 0; }
table + table, details + table { margin-top: 22px; }
caption { text-align: left; font-size: 13px; padding: 0 0 6px; }
th, td { text-align: left; vertical-align: top; padding: 7px 10px 7px 0; border-top: 1px solid var(--line);
  overflow-wrap: anywhere; }
thead th { border-top: 0; color: var(--soft); font-weight: 600; font-size: 12.5px; vertical-align: bottom; }
tbody th { font-weight: 600; }
tbody tr:hover { background: var(--faint); }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.number .lines { align-items: flex-end; }
th .small { font-weight: 400; max-width: 21em; }
th .small.bad { color: var(--bad); }
.badge { display: inline-block; border-radius: 99px; padding: 0 9px; font-size: 12px; font-weight: 600;
  line-height: 20px;
  border: 1px solid var(--line); color: var(--soft); margin: 0 4px 2px 0; white-space: nowrap; }
.badge.good { color: var(--good); background: var(--good-back); border-color: transparent; }
.badge.warm { color: var(--kind-1); border-color: var(--kind-1); }
.badge.bad { color: var(--bad); background: var(--bad-back); border-color: transparent; }
figure { margin: 8px 0 0; }
.scroll { overflow-x: auto; }
svg { font-family: inherit; }
.plot { display: block; width: 100%; max-width: 860px; min-width: 520px; margin: 0 auto; font-size: 12.5px; }
.plot text { fill: var(--soft); }
.plot .label { fill: var(--text); font-weight: 600; paint-order: stroke; stroke: var(--card); stroke-width: 3px;
  stroke-linejoin: round; }
.plot .label.dropped { fill: var(--soft); font-weight: 400; }
.grid { stroke: var(--line); stroke-width: 1; fill: none; }
.axis { stroke: var(--soft); fill: none; }
.original { stroke: var(--good); stroke-width: 1.5; fill: none; }
.budget { stroke: var(--bad); stroke-width: 1.2; stroke-dasharray: 5 4; fill: none; }
.beyond { fill: var(--bad); opacity: 0.08; }
.kind-0 { --kind: var(--kind-0); } .kind-1 { --kind: var(--kind-1); } .kind-2 { --kind: var(--kind-2); }
.kind-3 { --kind: var(--kind-3); } .kind-4 { --kind: var(--kind-4); } .kind-5 { --kind: var(--kind-5); }
.dot circle { fill: var(--kind); fill-opacity: 0.5; stroke: var(--kind); stroke-width: 1.5; }
.dot.best circle { fill-opacity: 0.85; stroke: var(--text); stroke-width: 2; }
.dot.dropped circle { fill-opacity: 0.08; stroke-dasharray: 3 2; }
.key { display: inline-block; margin-right: 14px; }
.swatch { display: inline-block; width: 10px; height: 10px; border-radius: 99px; background: var(--kind);
  margin-right: 5px; }
.strip { display: block; width: 132px; height: 18px; margin-top: 3px; }
.number .strip { margin-left: auto; }
.zero { stroke: var(--soft); stroke-width: 1; }
.whisker { stroke: var(--text); stroke-width: 1.5; opacity: 0.65; }
.spot { fill: var(--good); } .spot.bad { fill: var(--bad); }
.bar { display: block; min-width: 90px; height: 11px; margin-top: 5px; background: var(--faint); border-radius: 3px; }
.bar span { display: block; height: 100%; border-radius: 3px; background: var(--accent); }
.bar.float span { background: var(--kind-1); }
.examples { display: grid; grid-template-columns: repeat(auto-fill, minmax(200px, 1fr)); gap: 14px; }
.examples figure { border: 1px solid var(--line); border-radius: 8px; overflow: hidden; margin: 0; }
.examples .frame { background: var(--faint); display: flex; align-items: center; justify-content: center;
  height: 156px; }
.examples img { max-width: 100%; max-height: 156px; display: block; image-rendering: auto; }
.examples figcaption { padding: 9px 12px 11px; color: var(--text); overflow-wrap: anywhere; }
.examples dl, .facts { margin: 4px 0 0; display: grid; grid-template-columns: max-content minmax(0, 1fr);
  gap: 2px 10px; }
.facts { gap: 6px 18px; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", "Liberation Mono", monospace;
  font-size: 12.5px; }
pre { background: var(--faint); border-radius: 6px; padding: 10px 12px; margin: 4px 0; white-space: pre-wrap;
  overflow-wrap: anywhere; }
summary { cursor: pointer; color: var(--accent); padding: 3px 0; }
details { margin-top: 12px; }
ul.plain { margin: 6px 0 0; padding-left: 20px; }
ul.plain li { margin: 3px 0; overflow-wrap: anywhere; }
.worse { color: var(--bad); } .better { color: var(--good); }
footer { color: var(--soft); font-size: 13px; max-width: 1180px; margin: 0 auto; padding: 4px 20px 40px; }
@media (max-width: 760px) {
  main, header { padding: 0 12px; } header { padding-top: 20px; } section { padding: 14px 14px 16px; }
  h1 { font-size: 23px; } .verdict { font-size: 16.5px; }
  .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); } .tiles .big { font-size: 21px; }
  table, tbody, tr, td, tbody th, caption { display: block; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  tbody tr { border: 1px solid var(--line); border-radius: 8px; padding: 8px 12px; margin: 0 0 10px; }
  tbody th, td { border: 0; padding: 3px 0; } tbody th { font-size: 15px; padding-bottom: 5px; }
  td { display: flex; justify-content: space-between; gap: 14px; text-align: right; }
  td:empty { display: none; }
  td::before { content: attr(data-label); color: var(--soft); text-align: left; flex: none; max-width: 45%; }
  td .lines { align-items: flex-end; } td .strip { margin-left: auto; }
  .number { white-space: normal; } .bar { flex: 1; max-width: 170px; }
  .examples { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 8px; }
  .examples dl { grid-template-columns: minmax(0, 1fr); gap: 0; } .facts { grid-template-columns: minmax(0, 1fr);
  gap: 0; }
  .facts dd { margin-bottom: 8px; }
}
@media print { body { background: #fff; font-size: 11px; }
  section, .tiles li { break-inside: avoid; border-color: #ccc; } }
"""
