//! Pages in the formats of many servers, written for these tests.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::super::super::{EntryKind, Listing};
use super::*;

fn at(folder: &str, page: &str) -> Result<Listing, Fault> {
    parse(page.as_bytes(), &Url::parse(folder).expect("a URL"), false).map(PackedListing::unpack)
}

#[track_caller]
fn read(page: &str) -> Listing {
    at("http://h/pub/", page).unwrap_or_else(|fault| panic!("{fault}\n{page}"))
}

/// A page of nginx with these lines.
fn index(lines: &str) -> String {
    format!(
        "<html><head><title>Index of /pub/</title></head><body><h1>Index of /pub/</h1><hr><pre><a href=\"../\">../</a>\n{lines}</pre><hr></body></html>"
    )
}

fn seen(listing: &Listing) -> Vec<(&str, bool, Option<u64>)> {
    listing
        .entries
        .iter()
        .map(|entry| (entry.name.as_str(), entry.kind == EntryKind::Folder, entry.size))
        .collect()
}

/// 18 November 2026, 15:09.
const TIME_S: i64 = 1_795_014_540;

const A: (&str, bool, Option<u64>) = ("a.dat", false, Some(1_234));
const ROUNDED: (&str, bool, Option<u64>) = ("a.dat", false, None);
const SUB: (&str, bool, Option<u64>) = ("sub", true, None);

/// Server, page of `/pub/` with `a.dat` and `sub`, what is seen in it, and whether the minute of `a.dat` is known.
type Sample = (&'static str, String, [(&'static str, bool, Option<u64>); 2], bool);

fn samples() -> Vec<Sample> {
    let page = |head: &str, body: &str| {
        format!("<!DOCTYPE html><html><head>{head}</head><body>{body}</body></html>")
    };
    let table = |rows: &str| format!("<table><tbody>{rows}</tbody></table>");
    vec![
        ("nginx", index("<a href=\"sub/\">sub/</a>        18-Nov-2026 15:09       -\n<a href=\"a.dat\">a.dat</a>      18-Nov-2026 15:09    1234\n"), [A, SUB], true),
        ("nginx fancyindex", page("<title>Index of /pub/</title>", &format!("<h1>Index of /pub/</h1><table id=\"list\"><thead><tr><th><a href=\"?C=N&amp;O=A\">File Name</a>&nbsp;<a href=\"?C=N&amp;O=D\">&nbsp;&darr;&nbsp;</a></th><th><a href=\"?C=S&amp;O=A\">File Size</a></th></tr></thead>{}</table>", "<tr><td class=\"link\"><a href=\"../?C=N&amp;O=A\">Parent directory/</a></td><td class=\"size\">-</td><td class=\"date\">-</td></tr><tr><td class=\"link\"><a href=\"sub/\" title=\"sub\">sub/</a></td><td class=\"size\">-</td><td class=\"date\">2026-Nov-18 15:09</td></tr><tr><td class=\"link\"><a href=\"a.dat\" title=\"a.dat\">a.dat</a></td><td class=\"size\">1.2 KiB</td><td class=\"date\">2026-Nov-18 15:09</td></tr>")), [ROUNDED, SUB], true),
        ("apache, plain", page("<title>Index of /pub</title>", "<h1>Index of /pub</h1>\n<ul><li><a href=\"/\"> Parent Directory</a></li>\n<li><a href=\"a.dat\"> a.dat</a></li>\n<li><a href=\"sub/\"> sub/</a></li>\n</ul>"), [ROUNDED, SUB], false),
        ("apache, fancy", page("<title>Index of /pub</title>", "<h1>Index of /pub</h1><pre><img src=\"/icons/blank.gif\" alt=\"Icon \"> <a href=\"?C=N;O=D\">Name</a> <a href=\"?C=M;O=A\">Last modified</a> <a href=\"?C=S;O=A\">Size</a><hr><img src=\"/icons/back.gif\" alt=\"[PARENTDIR]\"> <a href=\"/\">Parent Directory</a>      -   \n<img src=\"/icons/unknown.gif\" alt=\"[   ]\"> <a href=\"a.dat\">a.dat</a>   2026-11-18 15:09  1.2K  \n<img src=\"/icons/folder.gif\" alt=\"[DIR]\"> <a href=\"sub/\">sub/</a>     2026-11-18 15:09    -   \n<hr></pre><address>Apache/2.4 (Unix) Server at h Port 80</address>"), [ROUNDED, SUB], true),
        ("apache with a header and a readme", page("<title>Our data</title>", "<p>Read <a href=\"http://paper.example/\">our paper</a>, and <a href=\"/terms\">the terms</a>, before you use any of these measurements, which were taken in the summer.</p><table><tr><th><a href=\"?C=N;O=D\">Name</a></th><th><a href=\"?C=M;O=A\">Last modified</a></th></tr><tr><td><a href=\"/\">Parent Directory</a></td></tr><tr><td><img alt=\"[   ]\" src=\"/i\"></td><td><a href=\"a.dat\">a.dat</a></td><td align=\"right\">2026-11-18 15:09  </td><td align=\"right\">1234</td><td>measured on 2026-11-18 15:09</td></tr><tr><td><img alt=\"[DIR]\" src=\"/i\"></td><td><a href=\"sub/\">sub/</a></td><td align=\"right\">2026-11-18 15:09  </td><td align=\"right\">  - </td></tr></table><p>The file <a href=\"a.dat\">a.dat</a> is the newest.</p>"), [ROUNDED, SUB], false),
        ("lighttpd", page("<title>Index of /pub/</title>", &format!("<h2>Index of /pub/</h2><div class=\"list\">{}</div><div class=\"foot\">lighttpd/1.4</div>", table("<tr class=\"d\"><td class=\"n\"><a href=\"../\">..</a>/</td><td class=\"m\">&nbsp;</td><td class=\"s\">- &nbsp;</td><td class=\"t\">Directory</td></tr><tr class=\"d\"><td class=\"n\"><a href=\"sub/\">sub</a>/</td><td class=\"m\">2026-Nov-18 15:09:00</td><td class=\"s\">- &nbsp;</td><td class=\"t\">Directory</td></tr><tr><td class=\"n\"><a href=\"a.dat\">a.dat</a></td><td class=\"m\">2026-Nov-18 15:09:00</td><td class=\"s\">1.2K</td><td class=\"t\">application/octet-stream</td></tr>"))), [ROUNDED, SUB], true),
        ("caddy", page("<title>pub</title><style>a{}</style>", "<svg><g id=\"folder\"></g></svg><header><h1><a href=\"../\">/</a><a href=\"\">pub</a>/</h1></header><div id=\"summary\"><b>1</b> directory <b>1</b> file <input type=\"text\" placeholder=\"filter\"></div><table><thead><tr><th><a href=\"?sort=name&order=asc\">Name</a></th></tr></thead><tbody><tr><td></td><td><a href=\"..\"><span class=\"goup\">Go up</span></a></td></tr><tr class=\"file\"><td></td><td><a href=\"./sub/\">\n<svg><use xlink:href=\"#folder\"></use></svg>\n<span class=\"name\">sub/</span>\n</a></td><td data-order=\"-1\">&mdash;</td><td><time datetime=\" 2026-11-18T15:09:00Z\">11/18/2026 03:09:00 PM +00:00</time></td></tr><tr class=\"file\"><td></td><td><a href=\"./a.dat\">\n<svg><use xlink:href=\"#file\"></use></svg>\n<span class=\"name\">a.dat</span>\n</a></td><td data-order=\"1234\">1.2 KiB</td><td><time datetime=\" 2026-11-18T15:09:00Z\">11/18/2026 03:09:00 PM +00:00</time></td></tr></tbody></table><footer>Served with <a href=\"https://caddyserver.com\">Caddy</a></footer><script>var a = \"<a href='evil'>x</a>\";</script>"), [A, SUB], true),
        ("mini-httpd", page("<title>Index of pub/</title>", "<h4>Index of pub/</h4>\n<pre>\n<a href=\".\">.         </a>    18Nov2026 15:09    4096\n<a href=\"..\">..         </a>    18Nov2026 15:09    4096\n<a href=\"a.dat\">a.dat      </a>    18Nov2026 15:09    1234\n<a href=\"sub/\">sub        </a>    18Nov2026 15:09    4096\n</pre><hr><address><a href=\"http://www.acme.com/software/mini_httpd/\">mini_httpd</a></address>"), [A, SUB], true),
        ("thttpd", page("<title>Index of /pub/</title>", "<h2>Index of /pub/</h2>\n<pre>\nmode  links    bytes  last-changed  name\ndr-x   2      4096  Nov 18 15:09  <a href=\"/pub/./\">.</a>\ndr-x   3      4096  Nov 18 15:09  <a href=\"/pub/../\">..</a>\n-r--   1      1234  Nov 18 15:09  <a href=\"/pub/a.dat\">a.dat</a>\ndr-x   2      4096  Nov 18 15:09  <a href=\"/pub/sub/\">sub/</a>\n</pre>"), [A, SUB], false),
        ("webfs", "<head><title>h:80/pub/</title></head>\n<body bgcolor=white>\n<h1>listing: \n<a href=\"/\">/</a><a href=\"/pub/\">pub/</a></h1><hr noshade size=1><pre>\n<b>access      user      group     date             size  name</b>\n\ndrwxr-xr-x  root      root      Nov 18 15:09    &lt;DIR&gt;  <a href=\"../\">..</a>\ndrwxr-xr-x  root      root      Nov 18 15:09    &lt;DIR&gt;  <a href=\"sub/\">sub</a>\n-rw-r--r--  root      root      Nov 18 15:09     1 kB  <a href=\"a.dat\">a.dat</a>\n</pre><hr noshade size=1>\n<small><a href=\"http://bytesex.org/webfs.html\">webfs/1.21</a> &nbsp; 18/Nov/2026 20:13:12 GMT</small>\n</body>\n".to_owned(), [ROUNDED, SUB], false),
        ("darkhttpd", page("<title>/pub/</title>", "<h1>/pub/</h1>\n<table border=\"0\"><tr><td><a href=\"..\">..</a>/</td></tr><tr><td><a href=\"sub/\">sub</a>/</td></tr><tr><td><a href=\"a.dat\">a.dat</a></td><td>1234</td></tr></table><hr>darkhttpd/1.14"), [A, SUB], false),
        ("python", page("<title>Directory listing for /pub/</title>", "<h1>Directory listing for /pub/</h1><hr><ul>\n<li><a href=\"a.dat\">a.dat</a></li>\n<li><a href=\"sub/\">sub/</a></li>\n</ul><hr>"), [ROUNDED, SUB], false),
        ("IIS", page("<title>h - /pub/</title>", "<H1>h - /pub/</H1><hr>\r\n\r\n<pre><A HREF=\"/\">[To Parent Directory]</A><br><br> 11/18/2026  3:09 PM        &lt;dir&gt; <A HREF=\"/pub/sub/\">sub</A><br> 11/18/2026  3:09 PM         1234 <A HREF=\"/pub/a.dat\">a.dat</A><br></pre><hr>"), [A, SUB], true),
        ("Jetty", page("<title>Directory: /pub/</title>", "<h1>Directory: /pub/</h1>\n<table><tr><td><a href=\"/\">Parent Directory</a></td><td></td><td></td></tr>\n<tr><td><a href=\"/pub/a.dat\">a.dat&nbsp;</a></td><td align=\"right\">1,234 bytes&nbsp;</td><td>Nov 18, 2026, 3:09:00 PM&nbsp;</td></tr>\n<tr><td><a href=\"/pub/sub/\">sub/&nbsp;</a></td><td align=\"right\">4096 bytes&nbsp;</td><td>Nov 18, 2026, 3:09:00 PM&nbsp;</td></tr></table>"), [A, SUB], true),
        ("Tomcat", page("<title>Directory Listing For [/pub/]</title>", "<h1>Directory Listing For [/pub/] - <a href=\"/\"><b>Up To [/]</b></a></h1><table><tr><td><strong>Filename</strong></td><td><strong>Size</strong></td><td><strong>Last Modified</strong></td></tr><tr><td>&nbsp;&nbsp;\n<a href=\"/pub/a.dat\"><tt>a.dat</tt></a></td><td><tt>1.2 kb</tt></td><td><tt>Wed, 18 Nov 2026 15:09:00 GMT</tt></td></tr><tr><td>&nbsp;&nbsp;\n<a href=\"/pub/sub/\"><tt>sub/</tt></a></td><td><tt>&nbsp;</tt></td><td><tt>Wed, 18 Nov 2026 15:09:00 GMT</tt></td></tr></table><h3>Apache Tomcat/10</h3>"), [ROUNDED, SUB], true),
        ("serve-index", page("<title>listing directory /pub</title><script>function search() {}</script>", "<input id=\"search\" type=\"text\" placeholder=\"Search\"><div id=\"wrapper\"><h1><a href=\"/\">~</a> / <a href=\"/pub\">pub</a></h1><ul id=\"files\" class=\"view-details\"><li class=\"header\"><span class=\"name\">Name</span><span class=\"size\">Size</span></li><li><a href=\"/\" class=\"icon icon-directory\" title=\"..\"><span class=\"name\">..</span></a></li><li><a href=\"/pub/sub\" class=\"icon icon-directory\" title=\"sub\"><span class=\"name\">sub</span><span class=\"size\"></span><span class=\"date\">11/18/2026 3:09:00 PM</span></a></li>\n<li><a href=\"/pub/a.dat\" class=\"icon icon icon-dat\" title=\"a.dat\"><span class=\"name\">a.dat</span><span class=\"size\">1234</span><span class=\"date\">11/18/2026 3:09:00 PM</span></a></li></ul></div>"), [A, SUB], true),
        ("http-server", page("<title>Index of /pub/</title>", &format!("<h1>Index of /pub/</h1>{}<br><address>Node.js</address>", table("<tr><td><i class=\"icon\"></i></td><td class=\"perms\"><code>(drwxr-xr-x)</code></td><td class=\"last-modified\">18-Nov-2026 15:09</td><td class=\"file-size\"><code></code></td><td class=\"display-name\"><a href=\"./sub/\">sub/</a></td></tr>\n<tr><td><i class=\"icon\"></i></td><td class=\"perms\"><code>(-rw-r--r--)</code></td><td class=\"last-modified\">18-Nov-2026 15:09</td><td class=\"file-size\"><code>1.2k</code></td><td class=\"display-name\"><a href=\"./a.dat\">a.dat</a></td></tr>"))), [ROUNDED, SUB], true),
        ("vercel serve", page("<title>Files within pub/</title>", "<main><header><h1><i>Index of&nbsp;</i><a href=\"/\">h/</a><a href=\"/pub/\">pub/</a></h1></header><ul id=\"files\"><li><a href=\"/\" title=\"..\" class=\"folder\">..</a></li><li><a href=\"/pub/sub/\" title=\"sub/\" class=\"folder\">sub/</a></li><li><a href=\"/pub/a.dat\" title=\"a.dat\" class=\"file dat\">a.dat</a></li></ul></main>"), [ROUNDED, SUB], false),
        ("h2o", "<!DOCTYPE html>\n<TITLE>Index of /pub/</TITLE>\n<H2>Index of /pub/</H2>\n<UL>\n<LI><A HREF=\"..\">Parent Directory</A>\n<LI><A HREF=\"a.dat\">a.dat</A>\n<LI><A HREF=\"sub/\">sub/</A>\n</UL>\n".to_owned(), [ROUNDED, SUB], false),
        ("twisted", page("<title>Directory listing for /pub/</title>", &format!("<h1>Directory listing for /pub/</h1>{}", table("<tr class=\"odd\"><td><a href=\"a.dat\">a.dat</a></td><td>1234B</td><td>[application/octet-stream]</td><td></td></tr><tr class=\"even\"><td><a href=\"sub/\">sub/</a></td><td></td><td>[Directory]</td><td></td></tr>"))), [A, SUB], false),
        ("Go", "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n<a href=\"a.dat\">a.dat</a>\n<a href=\"sub/\">sub/</a>\n</pre>\n".to_owned(), [ROUNDED, SUB], false),
        ("rclone", page("<title>Directory listing of /pub</title>", &format!("<h1>/pub</h1><div class=\"meta\"><a href=\"?sort=name&order=asc\">Name</a></div>{}", table("<tr><td></td><td><a href=\"..\">Go up</a></td></tr><tr class=\"file\"><td></td><td><a href=\"./a.dat\"><span class=\"name\">a.dat</span></a></td><td data-order=\"1234\"><size>1234</size></td><td><time datetime=\"2026-11-18 15:09:00 +0000 UTC\">2026-11-18 15:09:00 +0000 UTC</time></td></tr><tr class=\"file\"><td></td><td><a href=\"./sub/\"><span class=\"name\">sub/</span></a></td><td data-order=\"-1\">&mdash;</td><td></td></tr>"))), [A, SUB], true),
        ("Artifactory", page("<title>Index of libs/org</title>", "<h1>Index of libs/org</h1><pre>Name     Last modified      Size</pre><hr/><pre><a href=\"../\">../</a>\n<a href=\"sub/\">sub/</a>  18-Nov-2026 15:09    -\n<a href=\"a.dat\">a.dat</a>  18-Nov-2026 15:09  1234 bytes\n</pre><hr/><address>Artifactory Online Server</address>"), [A, SUB], true),
        ("Apache 1.3", "<HTML><HEAD><TITLE>Index of /pub</TITLE></HEAD><BODY><H1>Index of /pub</H1>\n<PRE><IMG SRC=\"/icons/blank.gif\" ALT=\"     \"> <A HREF=\"?N=D\">Name</A>   <A HREF=\"?M=A\">Last modified</A>  <A HREF=\"?S=A\">Size</A>\n<HR>\n<IMG SRC=\"/icons/back.gif\" ALT=\"[DIR]\"> <A HREF=\"/\">Parent Directory</A>   18-Nov-2026 15:09      -  \n<IMG SRC=\"/icons/unknown.gif\" ALT=\"[   ]\"> <A HREF=\"a.dat\">a.dat</A>    18-Nov-2026 15:09     1k  \n<IMG SRC=\"/icons/folder.gif\" ALT=\"[DIR]\"> <A HREF=\"sub/\">sub/</A>   18-Nov-2026 15:09      -  \n</PRE><HR>\n</BODY></HTML>".to_owned(), [ROUNDED, SUB], true),
        ("miniserve", page("<title>/pub/</title><script>var a;</script>", &format!("<div class=\"container\"><h1 class=\"title\"><a href=\"/\">h</a><span>/</span><a href=\"/pub/\">pub</a></h1><form action=\"/upload?path=%2Fpub\"><input type=\"file\"></form>{}<div class=\"footer\"><a href=\"https://github.com/svenstaro/miniserve\">miniserve</a></div></div>", table("<tr><td><p><a class=\"root\" href=\"../\">Parent directory</a></p></td></tr><tr class=\"entry-type-directory\"><td><p><a class=\"directory\" href=\"/pub/sub/\">sub/</a></p></td><td></td><td><span>2026-11-18 15:09:00</span></td></tr><tr class=\"entry-type-file\"><td><p><a class=\"file\" href=\"/pub/a.dat\">a.dat</a><span class=\"mobile-info size\">1.21 KiB</span></p></td><td class=\"size-cell\">1.21 KiB</td><td class=\"date-cell\"><span>2026-11-18 15:09:00</span><span>2 days ago</span></td></tr>"))), [ROUNDED, SUB], true),
        ("h5ai, without scripts", page("<title>index - powered by h5ai</title><script src=\"/_h5ai/app.js\"></script>", &format!("<div id=\"fallback\">{}</div>", table("<tr><th>Name</th><th>Last modified</th><th>Size</th></tr><tr><td><img src=\"/i/folder-parent.png\" alt=\"folder-parent\"/></td><td><a href=\"..\">Parent Directory</a></td></tr><tr><td><img src=\"/i/folder.png\" alt=\"folder\"/></td><td><a href=\"/pub/sub/\">sub</a></td><td>2026-11-18 15:09</td><td></td></tr><tr><td><img src=\"/i/file.png\" alt=\"file\"/></td><td><a href=\"/pub/a.dat\">a.dat</a></td><td>2026-11-18 15:09</td><td>1 KB</td></tr>"))), [ROUNDED, SUB], true),
        ("a German page", page("<title>Verzeichnis von /pub/</title>", "<h1>Verzeichnis von /pub/</h1><table><tr><td><a href=\"..\">Übergeordnetes Verzeichnis</a></td></tr><tr><td><a href=\"sub/\">sub</a></td><td>18. November 2026 15:09</td></tr><tr><td><a href=\"a.dat\">a.dat</a></td><td>18.11.2026 15:09</td><td>1.234 Byte</td></tr></table>"), [ROUNDED, SUB], true),
        ("a Japanese page", page("<title>/pub/ のインデックス</title>", "<table><tr><td><a href=\"..\">親ディレクトリ</a></td></tr><tr><td><a href=\"sub/\">sub/</a></td></tr><tr><td><a href=\"a.dat\">a.dat</a></td><td>2026年11月18日 15:09</td><td>1234</td></tr></table>"), [A, SUB], true),
    ]
}

#[test]
fn the_pages_of_many_servers_are_read() {
    for (server, page, expected, has_time) in samples() {
        let listing = at("http://h/pub/", &page).unwrap_or_else(|fault| panic!("{server}: {fault}"));
        assert_eq!(seen(&listing), expected, "{server}");
        assert!(!listing.truncated && listing.refused.is_empty(), "{server}: {listing:?}");
        let file = listing.entries.first().expect("a.dat");
        assert_eq!(file.coarse_s, has_time.then_some(TIME_S), "{server}");
        assert_eq!(file.modified_s, None, "{server}");
    }
}

#[test]
fn the_page_of_an_empty_folder_is_an_empty_listing() {
    let bodies = [
        "<html><head><title>Index of /pub/</title></head><body><h1>Index of /pub/</h1><hr><pre><a href=\"../\">../</a></pre><hr></body></html>",
        "<html><head><title>Index of /pub</title></head><body><h1>Index of /pub</h1><ul><li><a href=\"/\"> Parent Directory</a></li></ul></body></html>",
        "<html><head><title>Directory listing for /pub/</title></head><body><h1>Directory listing for /pub/</h1><hr><ul></ul><hr></body></html>",
        "<html><title>Index of pub/</title><body><h4>Index of pub/</h4><pre><a href=\".\">.</a> 18Nov2026 15:09 4096\n<a href=\"..\">..</a> 18Nov2026 15:09 4096\n</pre><address><a href=\"http://www.acme.com/\">micro_httpd</a></address></body></html>",
        "<head><title>h/pub/</title></head><body><h1>listing: <a href=\"/\">/</a><a href=\"/pub/\">pub/</a></h1><pre>\ndrwxr-xr-x  root root Nov 18 20:13 &lt;DIR&gt; <a href=\"../\">..</a>\n</pre><small><a href=\"http://bytesex.org/\">webfs</a></small></body>",
        "<html><head><title>pub</title></head><body><h1><a href=\"../\">/</a><a href=\"\">pub</a>/</h1><table><thead><tr><th><a href=\"?sort=name\">Name</a></th></tr></thead><tr><td><a href=\"..\">Go up</a></td></tr></table><footer>Served with <a href=\"https://caddyserver.com\">Caddy</a></footer></body></html>",
        "<html><head><title>h - /pub/</title></head><body><H1>h - /pub/</H1><hr><pre><A HREF=\"/\">[To Parent Directory]</A><br><br></pre><hr></body></html>",
        "<html><head><title>listing directory /pub</title><script>var x;</script></head><body><input type=\"text\"><h1><a href=\"/\">~</a> / <a href=\"/pub\">pub</a></h1><ul id=\"files\"><li><a href=\"/\" class=\"icon icon-directory\">..</a></li></ul></body></html>",
        "<TITLE>Index of /pub/</TITLE><H2>Index of /pub/</H2><UL><LI><A HREF=\"..\">Parent Directory</A></UL>",
        "<pre>\n</pre>\n",
        "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n</pre>\n",
    ];
    for body in bodies {
        let listing = read(body);
        assert!(listing.entries.is_empty() && listing.refused.is_empty() && !listing.truncated, "{body}");
    }
    let root = at(
        "http://h/",
        "<html><head><title>Index of /</title></head><body><h1>Index of /</h1><ul></ul></body></html>",
    );
    assert!(root.expect("an index").entries.is_empty());
}

#[test]
fn a_page_that_is_no_index_is_a_fault() {
    for page in [
        "",
        "Hello",
        "<html><body><h1>It works!</h1></body></html>",
        "<html><body><h1>Welcome</h1><p>This is the home of our data.</p></body></html>",
        "<html><head><title>Welcome to nginx!</title></head><body><h1>Welcome to nginx!</h1><p>For documentation see <a href=\"http://nginx.org/\">nginx.org</a>.</p></body></html>",
        "<html><head><title>404 Not Found</title></head><body><h1>Not Found</h1><hr><address>Apache/2.4</address></body></html>",
        "<html><head><title>Sign in</title></head><body><form action=\"/login\"><input name=\"u\"><input type=\"password\" name=\"p\"></form></body></html>",
        "<html><head><title>Index of /pub/</title></head><body><form><input type=password></form><a href=\"../\">../</a></body></html>",
        "<!doctype html><html><head><title>App</title><script src=\"/static/app.js\"></script></head><body><div id=\"root\"></div></body></html>",
        "<!doctype html><html><head><title>Index of /pub/</title><script src=\"/__assets__/index.js\"></script></head><body><div id=\"root\"></div></body></html>",
        // Some of the files, with prose or navigation around them.
        "<html><head><title>Run 5</title></head><body><h1>Run 5</h1><p>The data are <a href=\"a.dat\">a.dat</a> and <a href=\"b.dat\">b.dat</a>, taken in autumn. Ask <a href=\"mailto:x@y\">us</a> before use.</p></body></html>",
        "<html><body><p>The newest of our many measurements is <a href=\"a.dat\">a.dat</a>; the others are not public yet, and will never be either.</p></body></html>",
        "<html><head><title>pub</title></head><body><nav><a href=\"/\">Home</a><a href=\"/about\">About</a></nav><a href=\"a.dat\">a.dat</a></body></html>",
        "<html><head><title>Data</title></head><body><ul><li><a href=\"a.dat\">a.dat</a></li></ul></body></html>",
        "<html><body><a href=\"a.dat\">Download</a></body></html>",
        "<html><head><title>Table of contents of our book</title></head><body><a href=\"one.html\">One</a> <a href=\"two.html\">Two</a></body></html>",
        "<html><head><title>Index of articles about TCP/IP</title></head><body><a href=\"one.html\">One</a> <a href=\"/two\">Two</a></body></html>",
        "<html><head><title>pub</title></head><body><div class=\"related\"><ul><li><a href=\"../index.html\">up</a></li><li><a href=\"genindex.html\">index</a></li></ul></div><h1>The library pub</h1><p>Its functions are described in <a href=\"functions.html\">Functions</a>.</p></body></html>",
        "<html><head><title>Our measurements</title></head><body><h1>Our measurements</h1><p>All measurements of the year 2026 are kept here for a while.</p><a href=\"../\">Back</a><ul><li><a href=\"a.dat\">a.dat</a>, the first run, in which the sensor was new</li><li><a href=\"b.dat\">b.dat</a>, the second one</li></ul></body></html>",
        "<html><head><title>Just a moment...</title><meta http-equiv=\"refresh\" content=\"5\"></head><body><h1>h</h1><p>Checking your browser.</p><script src=\"/cdn-cgi/challenge.js\"></script></body></html>",
        "<html><head><title>Single Sign-On</title></head><body><form action=\"/sso\" method=\"post\"><input type=\"hidden\" name=\"SAMLRequest\"></form></body></html>",
        "<html><head><title>Blog</title></head><body><nav><a href=\"/\">Home</a></nav><h2><a href=\"first-post/\">First post</a></h2><p>2026-11-18 15:09</p><h2><a href=\"second-post/\">Second post</a></h2><p>2026-11-17 15:09</p></body></html>",
        "<html><head><title>h - Maintenance</title></head><body><h1>We will be back soon</h1></body></html>",
        "<?xml version=\"1.0\"?><ListBucketResult><Name>pub</Name><Contents><Key>a.dat</Key></Contents></ListBucketResult>",
        "<html><body><pre>some text</pre></body></html>",
        "{\"a\": 1}",
    ] {
        let result = at("http://h/pub/", page);
        assert!(matches!(&result, Err(Fault::NotAnIndex(_))), "{page}: {result:?}");
    }
}

#[test]
fn a_page_without_its_end_is_not_complete() {
    for (server, page, _, _) in samples() {
        let page = page.replace("</BODY>", "</body>").replace("</HTML>", "</html>");
        let marks = ["</html>", "</body>", "</UL>", "</pre>", "</tr>"];
        let mark = marks.iter().find(|mark| page.contains(*mark)).expect(server);
        let cut = page.rfind(mark).unwrap_or(page.len());
        let cut = page[..cut].rfind("</body>").unwrap_or(cut);
        match at("http://h/pub/", &page[..cut]) {
            Ok(listing) => assert!(listing.truncated, "{server}"),
            Err(fault) => assert!(matches!(fault, Fault::NotAnIndex(_)), "{server}: {fault}"),
        }
    }
    assert!(read("<html><head><title>Index of /pub/</title></head><body><pre><a href=\"a\">a</a> 16-Nov-2026 07:43 12").truncated);
}

#[test]
fn every_other_cut_of_a_page_is_seen_too() {
    let pages = samples();
    let (_, page, ..) = pages.iter().find(|(server, ..)| *server == "Go").expect("Go");
    let end = page.find("</pre>").expect("its end");
    for at_byte in 0..end {
        if let Ok(listing) = at("http://h/pub/", page.get(..at_byte).unwrap_or_default()) {
            assert!(listing.truncated, "{at_byte}");
        }
    }
}

#[test]
fn links_that_lead_elsewhere_are_no_entries() {
    for href in [
        "http://evil/pub/x",
        "https://h/pub/x",
        "//evil/x",
        "/x",
        "../x",
        "x/y",
        "?C=N",
        "x?y",
        "#top",
        "",
        "mailto:a@b",
        "javascript:alert(1)",
        "ftp://h/pub/x",
        "http://u@h/pub/x",
        "./",
        ".",
        "..",
        "/pub",
        "%2e%2e/",
    ] {
        let listing = read(&index(&format!("<a href=\"{href}\">x</a>\n")));
        assert_eq!((listing.entries.len(), listing.refused.len()), (0, 0), "{href}");
    }
    for href in ["x", "./x", "/pub/x", "http://h/pub/x", "//h/pub/x", "/%70ub/x", "x#top"] {
        let listing = read(&index(&format!("<a href=\"{href}\">y</a>\n")));
        assert_eq!(seen(&listing), [("x", false, None)], "{href}");
    }
}

#[test]
fn names_that_a_server_does_not_encode_are_read_from_the_text() {
    for (href, text, name) in [
        ("frame-2026-11-18T12:00:00.gwf", "frame-2026-11-18T12:00:00.gwf", "frame-2026-11-18T12:00:00.gwf"),
        ("./frame-2026-11-18T12:00:00.gwf", "frame-2026-11-18T12:..&gt;", "frame-2026-11-18T12:00:00.gwf"),
        ("C:", "C:", "C:"),
        ("http:", "http:", "http:"),
        ("mailto:x", "mailto:x", "mailto:x"),
        ("a?b", "a?b", "a?b"),
        ("a#b", "a#b", "a#b"),
        ("back\\slash", "back\\slash", "back\\slash"),
        ("semi;colon", "semi;colon", "semi;colon"),
        ("a%20b:c", "a b:c", "a b:c"),
        ("100%", "100%", "100%"),
        ("a b", "a b", "a b"),
        ("<angle>", "<angle>", "<angle>"),
        ("&amp;amp;", "&amp;amp;", "&amp;"),
    ] {
        let listing = read(&index(&format!("<a href=\"{href}\">{text}</a>  18-Nov-2026 15:09  7\n")));
        assert_eq!(seen(&listing), [(name, false, Some(7))], "{href}");
    }
    // Cut by the URL, and by the text.
    let listing = read(&index("<a href=\"a?bcdef\">a?bc..&gt;</a>  18-Nov-2026 15:09  7\n"));
    assert_eq!(listing.refused, [("a?bcdef".to_owned(), NameError::NotEncoded)]);
    let latin = parse(
        b"<title>Index of /pub/</title><pre><a href=\"caf\xe9\">caf\xe9</a></pre>",
        &Url::parse("http://h/pub/").expect("a URL"),
        false,
    );
    let latin = latin.expect("an index").unpack();
    assert_eq!(latin.entries.first().map(|entry| entry.name.to_bytes()), Some(b"caf\xe9".to_vec()));
}

#[test]
fn folders_without_a_slash_are_seen_where_the_page_says_so() {
    for row in [
        "<img src=\"/icons/folder.gif\" alt=\"[DIR]\"> <a href=\"sub\">sub</a>",
        "<a href=\"sub\" class=\"icon icon-directory\">sub</a>",
        "<a href=\"sub\">sub/</a>",
        "drwxr-xr-x 2 root <a href=\"sub\">sub</a>",
        "<a href=\"sub\">sub</a> 18-Nov-2026 15:09 &lt;DIR&gt;",
    ] {
        assert_eq!(seen(&read(&index(&format!("{row}\n")))), [SUB], "{row}");
    }
    assert_eq!(seen(&read(&index("<a href=\"sub\">sub</a> 18-Nov-2026 15:09 -\n"))), [("sub", false, None)]);
}

#[test]
fn an_index_without_a_slash_anywhere_may_list_folders_as_files() {
    for (links, expected) in [
        ("<a href='../'>..</a> <a href='f'>f</a>", true),
        ("<a href='/pub/'>Parent Directory</a> <a href='f'>f</a>", true),
        ("<a href='?C=N;O=D'>Name</a> <a href='f'>f</a>", true),
        ("<a href='d/'>d</a> <a href='f'>f</a>", true),
        ("<a href='.'>.</a> <a href='..'>..</a> <a href='f'>f</a>", false),
        ("<a href='/'>~</a> / <a href='/pub/data'>data</a> <a href='/pub/data/f'>f</a>", false),
    ] {
        let page = format!("<html><head><title>Index of /pub/data</title></head><body>{links}</body></html>");
        assert_eq!(at("http://h/pub/data/", &page).expect("an index").marks_folders, expected, "{links}");
    }
}

#[test]
fn what_stands_in_a_row_never_belongs_to_another_file() {
    // Before the links, as webfs and IIS have it: the first file's own size is its own, not the second one's.
    let listing = read(&index(
        " 11/18/2026  3:09 PM  1 <a href=\"a\">a</a><br> 11/19/2026  3:09 PM  22 <a href=\"b\">b</a><br> <a href=\"c\">c</a><br>",
    ));
    assert_eq!(seen(&listing), [("a", false, Some(1)), ("b", false, Some(22)), ("c", false, None)]);
    let times: Vec<_> = listing.entries.iter().map(|entry| entry.coarse_s).collect();
    assert_eq!(times, [Some(TIME_S), Some(TIME_S + 86_400), None]);
    // Two files in one row.
    let shared =
        read(&index("<a href=\"a\">a</a> 18-Nov-2026 15:09 1 <a href=\"b\">b</a> 19-Nov-2026 15:09 22\n"));
    assert!(
        shared.entries.iter().all(|entry| entry.size.is_none() && entry.coarse_s.is_none()),
        "{shared:?}"
    );
    // A name that looks like a date is none.
    let named = read(&index("<a href=\"2026-11-18%2015:09\">2026-11-18 15:09</a>   1234\n"));
    assert_eq!(named.entries.first().map(|entry| (entry.coarse_s, entry.size)), Some((None, Some(1_234))));
}

#[test]
fn pages_that_say_or_show_that_they_are_not_all_are_cut() {
    assert!(read(&index("<a href=\"a\">a</a>\n<a href=\"?page=2\">Next</a>\n")).truncated);
    assert!(
        !read(&index("<a href=\"a\">a</a>\n<a href=\"?C=N;O=D\">Name</a> <a href=\"?sort=size\">Size</a>\n"))
            .truncated
    );
    for (count, is_cut) in [(9_999, false), (10_000, true)] {
        let mut rows = String::new();
        for number in 0..count {
            write!(rows, "<tr><td><a href=\"./{number}\">{number}</a></td></tr>")
                .expect("a String takes all");
        }
        let page = format!(
            "<html><head><title>pub</title></head><body><table><tr><td><a href=\"..\">Go up</a></td></tr>{rows}</table><a href=\"https://caddyserver.com\">Caddy</a></body></html>"
        );
        assert_eq!(read(&page).truncated, is_cut, "{count}");
    }
}

#[test]
fn encoded_tricks_are_refused_by_name() {
    for (href, why) in [
        ("%2e%2e%2fx", NameError::Separator),
        ("a%0d%0ab", NameError::Invisible),
        ("a\nb", NameError::Invisible),
        (".ssh/", NameError::Hidden),
    ] {
        let listing = read(&index(&format!("<a href=\"{href}\">x</a>\n")));
        assert_eq!(listing.refused.iter().map(|(_, why)| *why).collect::<Vec<_>>(), [why], "{href}");
    }
}

#[test]
fn a_link_whose_address_is_cut_makes_the_listing_incomplete() {
    let listing = read(&index(&format!("<a href=\"{}\">x</a>\n<a href=\"a\">a</a>\n", "x".repeat(20_000))));
    assert_eq!((seen(&listing), listing.truncated), (vec![("a", false, None)], true));
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&bytes, &Url::parse("http://h/pub/").expect("a URL"), false);
    }

    #[test]
    fn any_tags_are_read_without_harm(page in "(<a href=[\"'x/.%2ef]{0,9}>|</a>|<td>|</tr>|<pre>|<h1>|[0-9: ]{1,6}|<){0,30}") {
        let _ = at("http://h/pub/", &page);
    }

    #[test]
    fn what_was_written_is_read(names in proptest::collection::btree_set("[a-z][a-z0-9 äß%?#&\"<:;\\\\]{0,12}[a-z]", 0..20), size in 0u64..1 << 40) {
        let folder = Url::parse("http://h/pub/").expect("a URL");
        let mut lines = String::new();
        for name in &names {
            let mut url = folder.clone();
            url.path_segments_mut().expect("a base").pop_if_empty().push(name);
            let href = url.path().rsplit('/').next().unwrap_or_default().replace('&', "&amp;");
            writeln!(lines, "<a href=\"./{href}\">…</a>  16-Nov-2026 07:43  {size}\r").expect("a String takes all");
        }
        let listing = read(&index(&lines));
        let expected = names.iter().map(|name| (name.as_str(), false, Some(size))).collect::<Vec<_>>();
        prop_assert_eq!(seen(&listing), expected);
    }
}
